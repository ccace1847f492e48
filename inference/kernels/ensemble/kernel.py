"""Ensemble kernels: the protocol of kernels that adapt over chains, and their common base."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.layout import Layout
from inference.common.log_densities import require_log_density, wrap_log_density
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.hamiltonian.leapfrog import flat_value_and_grad


@runtime_checkable
class EnsembleKernel(Kernel, Protocol):
    """Markov kernel that moves all chains of a run together, and adapts over them.

    It is a :class:`Kernel` with the class variable `moves_chains_together`, which is True, whose
    positions and states hold all chains:

    | Part     | Form                                                                            |
    |----------|---------------------------------------------------------------------------------|
    | position | pytree as for a kernel, with the chains in front of every leaf                  |
    | state    | NamedTuple with such a `position`; a `log_density`, if any, is ``(chain,)``.    |
    |          | Adapted numbers, such as a step size, are part of the state, without an axis    |
    |          | over chains                                                                     |
    | info     | NamedTuple of arrays ``(chain,)``, and of scalars that hold for all chains      |

    The driver calls :meth:`adapt` after every transition of warm-up, and never after that. If
    chains are spread over devices, a mean over chains is an ordinary ``jnp.mean``.
    """

    moves_chains_together: ClassVar[bool]

    def adapt(self, state: Any, info: Any, iteration: jax.Array, num_warmup: jax.Array) -> Any:
        """The state, adapted after a transition of warm-up.

        Args:
            state: State of all chains after the transition.
            info: Info of the transition.
            iteration: Number of transitions before this one.
            num_warmup: Number of transitions of warm-up; at the last of them, `iteration` is
                ``num_warmup - 1``.
        """
        ...


def is_ensemble(kernel: Any) -> bool:
    """Whether a kernel moves all chains together."""
    return isinstance(kernel, EnsembleKernel) and kernel.moves_chains_together


@dataclasses.dataclass(frozen=True)
class DensityKernel:
    """Base of ensemble kernels with a log density.

    Attributes:
        log_density: Function of the position of one chain that returns a scalar. `None` if a driver
            is to supply it.
    """

    log_density: Callable[[Any], jax.Array] | None = None
    moves_chains_together: ClassVar[bool] = True

    def __post_init__(self) -> None:
        wrap_log_density(self)

    def check(self, layout: Layout) -> None:
        """Checks the settings that are not traced.

        Raises:
            TypeError: if a setting is not a real number.
            ValueError: if a setting is out of range.
        """

    def check_positions(self, positions: np.ndarray) -> None:
        """Checks starting points of all chains, ``(chain, size)``.

        Raises:
            ValueError: if chains cannot start there.
        """


@dataclasses.dataclass(frozen=True)
class GradientKernel(DensityKernel):
    """Base of ensemble kernels that follow the gradient of a log density."""

    def density_of(self, layout: Layout) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
        """Log densities ``(chain,)`` and gradients as a function of positions ``(chain, size)``.

        Raises:
            ValueError: if there is no log density.
        """
        return jax.vmap(flat_value_and_grad(require_log_density(self), layout))


def layout_of(position: Any) -> Layout:
    """Layout of the position of one chain, from positions with the chains in front.

    Raises:
        TypeError: if a leaf is not a floating-point array.
        ValueError: if leaves have no common axis over chains in front.
    """
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(position)]
    if not all(shapes) or len({shape[0] for shape in shapes}) != 1:
        raise ValueError(
            "position must have the chains in front of every leaf, as this kernel moves them "
            f"together, got leaves of shapes {shapes}"
        )
    Layout.of(position)
    kinds = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], jnp.result_type(x)), position)
    return Layout.of(kinds)


def check_num_chains(kernel: Any, position: Any, least: int) -> int:
    """Number of chains of positions.

    Raises:
        ValueError: if there are fewer than `least`.
    """
    num_chains = jnp.shape(jax.tree.leaves(position)[0])[0]
    if num_chains < least:
        raise ValueError(
            f"{type(kernel).__name__} adapts over chains, and needs {least} of them at least, got "
            f"{num_chains}: raise num_chains, to 64 or more, or use NUTS() for a few chains"
        )
    return num_chains
