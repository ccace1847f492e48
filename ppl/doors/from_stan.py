"""from_stan: a model made of a Stan program and its data."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from ppl.core.model_pytree import Model
from ppl.doors import stan_density
from ppl.doors.door_model import DoorModel
from ppl.doors.stan_programs import COMPILERS, StanProgram, Variable, compile_program
from ppl.harvest import nest
from ppl.harvest.pytrees import register_dataclass
from ppl.primitives.deterministic import deterministic
from ppl.primitives.factor import factor
from ppl.primitives.sample import check_key, sample
from ppl.transforms.from_density import FlatPrior


def from_stan(
    program: Any,
    data: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    compiler: str = "stanli",
    seed: int = 0,
    include_paths: tuple[str, ...] = (),
) -> Model:
    """A model made of a Stan program and its data.

    The package `stanli` interprets the program, without a C++ compiler; BridgeStan compiles it to
    C++. Stan computes the log density and its gradient, in double precision, and JAX calls it.

    | Stan | site |
    |---|---|
    | a parameter | its unconstrained numbers, in the scope `"unconstrained"` |
    | parameters, transformed parameters, generated quantities | deterministic, named as in Stan |
    | the log density of the unconstrained parameters | the factor `"log_density"` |

    The log density is Stan's `lp__`: it lacks terms that do not depend on parameters, and has the
    log determinants of constraints. Positions are Stan's unconstrained parameters. Where Stan
    rejects a position, the log density is -inf, and the first rejection warns in Stan's words.
    Second derivatives, and first ones of deterministic sites, are central differences, with
    relative errors of about 1e-9, and NaN where Stan rejects one side.

    The log density depends on the unconstrained parameters alone: `intervene` on a deterministic
    site changes what is recorded under its name, and nothing else. To fix a parameter, fix its
    numbers in the scope ``"unconstrained"``.

    Deterministic sites have Stan's shapes; `M[1, 2]` of Stan is `M[0, 1]`. Integers come
    as floating numbers. The entries of a tuple `x` are sites `"x:1"`, `"x:2"`; a complex `z` is
    `"z:real"` and `"z:imag"`. Random numbers of generated quantities follow from `seed` and the
    position: the same draw has the same generated quantities. Where a generated quantity fails, it
    is NaN; with stanli, so are all deterministic sites of that draw. Where stanli lacks a type,
    such as tuples, it computes no transformed parameters and generated quantities; a warning names
    those that are lost, and BridgeStan has them.

    Without JAX's 64-bit mode, positions, log densities and gradients are rounded to 32 bits at the
    door, though Stan computes them in 64: a log density of a million is exact to 0.06. Enable
    `jax_enable_x64` for models with many observations.

    Args:
        program: The path of a `.stan` file, the text of a program, or a `bridgestan.StanModel`.
        data: Numbers and arrays by name, or the path of a JSON file. Stan's tuples are tuples.
        compiler: `"stanli"`, or `"bridgestan"`, which needs a C++ compiler and downloads Stan once.
        seed: Seed of the random numbers in `generated quantities` and `transformed data`.
        include_paths: Folders for `#include`, beside the folder of the file.

    Returns:
        Function of a key. It has no prior to draw from. New data of the same shapes never
        recompile JAX's functions.

    Raises:
        ImportError: If `stanli` or `bridgestan` is not installed.
        FileNotFoundError: If a file is missing.
        TypeError: If `program`, `data` or `include_paths` is of another kind.
        ValueError: If the program does not compile or has no parameters, or the data do not fit.

    Example:
        >>> import inference, jax, ppl
        >>> program = '''
        ...     data { int N; array[N] int<lower=0, upper=1> y; }
        ...     parameters { real<lower=0, upper=1> theta; }
        ...     model { theta ~ beta(2, 2); y ~ bernoulli(theta); }
        ...     generated quantities { real odds = theta / (1 - theta); }
        ... '''
        >>> model = ppl.from_stan(program, {"N": 4, "y": [1, 1, 0, 1]})  # doctest: +SKIP
        >>> result = inference.mcmc(jax.random.key(0), model)  # doctest: +SKIP
        >>> result.draws["odds"].shape  # doctest: +SKIP
        (4, 1000)
    """
    if compiler not in COMPILERS:
        raise ValueError(f"from_stan: compiler must be one of {COMPILERS}, got {compiler!r}.")
    if isinstance(include_paths, str | os.PathLike):
        raise TypeError(
            "from_stan: include_paths must be a tuple of folders, got one path: write "
            f"include_paths=({str(include_paths)!r},)."
        )
    compiled = compile_program(program, data, compiler, seed, tuple(map(str, include_paths)))
    if not compiled.size:
        raise ValueError(
            "from_stan: the Stan program has no parameters, so there is nothing to sample. Its "
            "generated quantities alone are a simulation: write it as a function of a key."
        )
    dtype = jnp.result_type(float)
    return DoorModel(
        StanFunction(compiled.parameters, compiled.outputs, dtype, compiled), compiled.fingerprint
    )


@register_dataclass
@dataclasses.dataclass(frozen=True)
class StanBlock(FlatPrior):
    """Improper distribution of the unconstrained numbers of a parameter."""

    def sample(self, key: jax.Array) -> NoReturn:
        """Raise an error: an improper distribution has no draws."""
        del key
        raise NotImplementedError(
            "a model of ppl.from_stan has no prior to draw from, as a Stan program states a log "
            "density. Start from init='uniform', and write predictions as generated quantities"
        )


@dataclasses.dataclass(frozen=True)
class StanFunction:
    """Function of a fingerprint and a key: samples each block, then adds the factor.

    Functions for equal variables are equal, whatever their programs: compiled functions get the
    program by its fingerprint.
    """

    parameters: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    dtype: Any
    program: StanProgram = dataclasses.field(compare=False, repr=False)

    @property
    def __name__(self) -> str:
        """The name of the program's file, for errors."""
        return self.program.name

    def __repr__(self) -> str:
        return f"from_stan({self.__name__}, sites: {len(self.parameters)} latent)"

    def data_by_name(self, fingerprint: jax.Array, /) -> dict[str, Any]:
        """Nothing, as the data stand in the program."""
        del fingerprint
        return {}

    def __call__(self, fingerprint: jax.Array, random_key: jax.Array, /) -> dict[str, jax.Array]:
        """The parameters, transformed parameters and generated quantities, by name."""
        check_key("a model of from_stan", random_key)
        names = {variable.name for variable in self.outputs}
        scope = _free_name("unconstrained", names)
        position = nest(self._sample_blocks, scope=scope)(random_key)
        factor(
            stan_density.log_density(fingerprint, position), name=_free_name("log_density", names)
        )
        size = self.outputs[-1].end
        values = stan_density.constrain(size, fingerprint, position)
        return {
            v.name: deterministic(values[v.start : v.end].reshape(v.shape), name=v.name)
            for v in self.outputs
        }

    def _sample_blocks(self, key: jax.Array) -> jax.Array:
        """Unconstrained numbers of all parameters in one vector."""
        blocks = [sample(key, StanBlock(v.shape, self.dtype), name=v.name) for v in self.parameters]
        return jnp.concatenate([x.reshape(-1) for x in blocks])


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
