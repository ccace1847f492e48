"""Settings of a run of chains: what decides its draws, checked and described for a manifest."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inference.common.argument_checks import check_count, check_fraction, short_repr
from inference.common.threefry import seed_of
from inference.drivers.mass_blocks import check_mass_matrix_setting
from inference.drivers.run_description import (
    RecordedInit,
    describe_init,
    describe_key,
    describe_object,
    restore_key,
)
from inference.initialization.initial_positions import STRATEGIES
from inference.kernels.ensemble.differences import DifferenceKernel
from inference.kernels.ensemble.kernel import is_ensemble
from inference.kernels.gibbs.gibbs import Conjugate, Gibbs
from inference.kernels.hamiltonian.kernel import HamiltonianKernel, Kernel
from inference.kernels.tempering.parallel_tempering import ParallelTempering
from inference.results.guide_result import GuideResult
from inference.results.mcmc_result import MCMCResult
from ppl import Enumerate

NUM_WARMUP = 1000
NUM_DRAWS = 1000
MAX_DRAWS = 100_000  # draws of a run with `until`, unless a number is given
NUM_CHAINS = 4


@dataclasses.dataclass(frozen=True, eq=False)
class RunSettings:
    """Settings of a run of chains; :func:`mcmc` says what they mean.

    Attributes:
        key: Random key.
        kernel: Kernel that moves the chains.
        num_warmup: Iterations of warm-up.
        num_draws: Draws of each chain; `None` for the default.
        num_chains: Number of chains.
        mass_matrix: Structure of the mass matrix: a kind, or names of sites by block.
        target_acceptance_rate: Acceptance rate that warm-up adapts the step size to; `None` for the
            kernel's own.
        init: Name of a strategy, a start, a result that has starts, or the hash of one.
        keep: Names of the sites that are kept; `None` for all.
        has_until: Whether the run ends when draws are precise enough.
        transport: Whether chains move in the standard coordinates of the guide that `init` has.
        learn_centering: Whether warm-up learns the centering of sites.
        has_learned: Whether chains move in coordinates that another run has learned.
        num_earlier_warmup: Iterations of warm-up of another run, from whose chains these go on.
        earlier_seeds: Seeds of the runs whose chains these were before, the oldest first.
    """

    key: jax.Array
    kernel: Any
    num_warmup: Any
    num_draws: Any
    num_chains: Any
    mass_matrix: Any
    target_acceptance_rate: Any
    init: Any
    keep: Any
    has_until: bool
    transport: Any = False
    learn_centering: Any = True
    has_learned: bool = False
    num_earlier_warmup: int = 0
    earlier_seeds: Sequence[list[int]] = ()

    def checked(self) -> "RunSettings":
        """The settings with numbers of Python and without defaults; `keep` needs the model.

        Raises:
            TypeError: if a setting has the wrong type.
            ValueError: if one is out of range, or does not fit the kernel.
        """
        mass_matrix = check_mass_matrix_setting(self.mass_matrix)
        check_kernel(self.kernel, mass_matrix, self.target_acceptance_rate)
        num_warmup = check_count("num_warmup", self.num_warmup, least=0)
        default = MAX_DRAWS if self.has_until else NUM_DRAWS
        num_draws = default if self.num_draws is None else self.num_draws
        if type(num_draws) is int and num_draws == 0:
            raise ValueError(
                "num_draws must be an integer of at least 1, got 0. For a warm-up alone give 1: "
                "inference.resume(result, ...) goes on from there with the same key, and "
                "inference.mcmc(..., init=result, num_warmup=0) with others"
            )
        num_draws = check_count("num_draws", num_draws, least=1)
        num_chains = check_count("num_chains", self.num_chains, least=1)
        rate = self.target_acceptance_rate
        if rate is not None:
            rate = check_fraction("target_acceptance_rate", rate)
        elif isinstance(self.kernel, HamiltonianKernel):
            rate = self.kernel.default_acceptance_rate
        _check_transport(self.transport, self.init)
        if not isinstance(self.learn_centering, bool):
            raise TypeError(
                f"learn_centering must be True or False, got {short_repr(self.learn_centering)}"
            )
        return dataclasses.replace(
            self,
            num_warmup=num_warmup,
            num_draws=num_draws,
            num_chains=num_chains,
            mass_matrix=mass_matrix,
            target_acceptance_rate=rate,
        )

    def describe(self) -> dict[str, Any]:
        """Entries that JSON can hold; of a kernel and a start that is given, a hash."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ("transport", "has_learned", "num_earlier_warmup", "earlier_seeds"):
            if not fields[name]:
                del fields[name]  # as in runs of older versions
        init = self.init
        if isinstance(init, MCMCResult) and init.chains is not None:
            init = init.chains["state"]
        return {
            **fields,
            "key": describe_key(self.key),
            "kernel": describe_object(self.kernel),
            "init": describe_init(init),
            "keep": None if self.keep is None else list(self.keep),
            "mass_matrix": _as_json(self.mass_matrix),
        }

    @property
    def learns(self) -> bool:
        """Whether the kernel can learn the centering of sites, and is to."""
        moves_together = is_ensemble(self.kernel) and not isinstance(self.kernel, DifferenceKernel)
        has_gradient = isinstance(self.kernel, HamiltonianKernel) or moves_together
        return self.learn_centering and has_gradient and not self.transport

    @property
    def learns_by_default(self) -> bool:
        """Whether sites without a strategy are to learn their centering, too.

        A kernel with a mass matrix of its own knows the coordinates of the model.
        """
        is_hamiltonian = isinstance(self.kernel, HamiltonianKernel)
        return self.learns and is_hamiltonian and self.kernel.inverse_mass_matrix is None

    @property
    def has_named_init(self) -> bool:
        """Whether chains start by a strategy that has a name."""
        return isinstance(self.init, str) and self.init in STRATEGIES


def restore_settings(described: Mapping[str, Any], kernel: Any) -> RunSettings:
    """The settings that `describe` has described, with the kernel, which is given again."""
    names = [field.name for field in dataclasses.fields(RunSettings)]
    init = described["init"]
    return RunSettings(
        **{
            **{name: described[name] for name in names if name in described},
            "key": restore_key(described["key"]),
            "kernel": kernel,
            "init": init if init in STRATEGIES else RecordedInit(init),
        }
    )


def words_of_seed(key: jax.Array) -> list[int]:
    """Two words on which all random numbers of a run depend: equal for keys that give the same."""
    return np.asarray(seed_of(key)).tolist()


def _as_json(mass_matrix: Any) -> Any:
    return mass_matrix if isinstance(mass_matrix, str) else [list(group) for group in mass_matrix]


def _check_transport(transport: Any, init: Any) -> None:
    """Checks that chains can be transported by the guide of a start.

    Raises:
        TypeError: if `transport` is not a flag, or `init` is not a fit of a guide.
    """
    if not isinstance(transport, bool):
        raise TypeError(f"transport must be True or False, got {short_repr(transport)}")
    if transport and not isinstance(init, GuideResult):
        found = short_repr(init) if isinstance(init, str) else type(init).__name__
        raise TypeError(
            "transport=True needs init=fit, where fit = inference.svi(key, model, *args, "
            f"guide=inference.NeuralSpline()) or the like for this model; got init={found}"
        )


def check_kernel(kernel: Any, mass_matrix: Any, target_acceptance_rate: Any) -> None:
    """Check that a kernel is one, and that settings of warm-up are for it.

    Raises:
        TypeError: if it is not a kernel, or not a pytree.
        ValueError: if it has a log density of its own, or does not adapt what is set.
    """
    name = type(kernel).__name__
    if not isinstance(kernel, Kernel) or isinstance(kernel, type):
        made = f"; did you mean {kernel.__name__}()?" if isinstance(kernel, type) else ""
        made = "; did you mean Gibbs.auto()?" if kernel in (Gibbs, Gibbs.auto) else made
        if isinstance(kernel, Conjugate | Enumerate):
            made = f'; as a block of Gibbs it has sites, kernel=Gibbs({{"z": {name}()}})'
        own = "" if made else "; one of your own has init(position) and step(key, state)"
        raise TypeError(f"kernel must be a kernel such as NUTS(), got {kernel!r}{made}{own}")
    if not dataclasses.is_dataclass(kernel) or jax.tree_util.all_leaves([kernel]):
        raise TypeError(
            f"kernel must be a frozen dataclass that JAX knows as a pytree; decorate {name} with "
            "@jax.tree_util.register_dataclass above @dataclasses.dataclass(frozen=True)"
        )
    if getattr(kernel, "log_density", None) is not None:
        raise ValueError(
            f"kernel has a log density of its own, but mcmc takes it from the model; pass {name}() "
            "without log_density, or drive kernel.step yourself"
        )
    if isinstance(kernel, ParallelTempering):
        kernel.check_kernel()
    if not isinstance(kernel, HamiltonianKernel):
        does = "nothing of {0} is adapted: leave out {1}"
        if hasattr(kernel, "adapt"):
            does = "{0} adapts as its own fields say: leave out {1}, or set them, as {0}(...)"
        if isinstance(kernel, Gibbs):
            does = "each block of {0} adapts by itself: leave out {1}, or set fields of its kernel"
        for argument, is_given in (
            ("mass_matrix", mass_matrix != "auto"),
            ("target_acceptance_rate", target_acceptance_rate is not None),
        ):
            if is_given:
                raise ValueError(
                    f"{argument} is for kernels such as NUTS() and HMC(); "
                    f"{does.format(name, argument)}"
                )
    elif kernel.inverse_mass_factor is not None and kernel.inverse_mass_matrix is None:
        raise ValueError(
            "kernel has an inverse_mass_factor and no inverse_mass_matrix; pass the matrix, which "
            "mcmc factorizes"
        )
