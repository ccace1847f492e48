"""Checks of a kernel within another one, which gives it a log density."""

from typing import Any

from inference.common.argument_checks import short_repr
from inference.kernels.ensemble.kernel import is_ensemble
from inference.kernels.hamiltonian.kernel import Kernel


def check_inner_kernel(
    what: str, kernel: Any, source: str, expected: str, *, needs_refresh: bool
) -> None:
    """Checks that a kernel moves one chain, by a log density that another kernel gives it.

    Args:
        what: Name of the kernel's place, as ``"Gibbs: rest"``.
        kernel: The kernel, of any type.
        source: What gives the log density, in words.
        expected: What is expected, in words.
        needs_refresh: Whether its states are always evaluated anew. Otherwise only the state of a
            kernel that adapts is, as others are made anew.

    Raises:
        TypeError: if it is not such a kernel.
        ValueError: if it has a log density of its own.
    """
    name = type(kernel).__name__
    if not isinstance(kernel, Kernel) or isinstance(kernel, type):
        made = f"; did you mean {kernel.__name__}()?" if isinstance(kernel, type) else ""
        raise TypeError(f"{what} must be {expected}, got {short_repr(kernel)}{made}")
    if is_ensemble(kernel):
        raise TypeError(f"{what} must be {expected}; {name} moves all chains together")
    if not hasattr(kernel, "log_density"):
        raise TypeError(
            f"{what} must be {expected}, with a field log_density for the density that {source}; "
            f"{name} has none"
        )
    if not hasattr(kernel, "refresh") and (needs_refresh or hasattr(kernel, "adapt")):
        raise TypeError(
            f"{what} must be {expected}, with a method refresh(state), which evaluates anew what a "
            f"state caches of the log density that {source}; {name} has none"
        )
    if getattr(kernel, "log_density", None) is not None:
        raise ValueError(
            f"{what} has a log density of its own, but {source}: pass {name}() without log_density"
        )
