"""Messages that name the sites and gradients that are not finite."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inference.common.layout import Layout
from inference.common.leaf_names import name_entry, named_leaves
from inference.common.target import Target, target_labels
from inference.runtime.devices import gather_from_processes

ADVICE = (
    "Check that observed values lie in the support of their distribution and hold no NaN, and that "
    "parameters stay in their domain for every value of the latent sites; or start elsewhere, at "
    "draws of the prior (init='prior') or at values that you know (init={'site': value})."
)

_OTHER_CAUSE = "for the map from unconstrained space"


def start_failure(who: str, num_attempts: int, checked: str, culprits: Sequence[str]) -> str:
    """Message for a chain, or whatever else starts, that found no finite starting point.

    Args:
        who: The chain.
        num_attempts: Number of attempts.
        checked: What has to be finite, with its verb.
        culprits: What was not finite at the last attempt.
    """
    attempts = "one attempt" if num_attempts == 1 else f"{num_attempts} attempts"
    return (
        f"{who} found no starting point where the {checked} finite, in {attempts}. At the last "
        f"one, {'; '.join(culprits)}. {ADVICE}"
    )


def not_finite(
    target: Target, layout: Layout, position: Any, log_density: Any, gradient: Any
) -> list[str]:
    """Culprits at a flat position where the log density or its gradient is not finite.

    The gradient is `None` if it was not checked. The result is the first of these that is not
    empty:

    1. sites whose log probability is not finite;
    2. sites by which the gradient is not finite;
    3. the log density itself, through the map from unconstrained space, or `other_cause` of the
       target.

    An error that the density raises where it is not compiled, as that no mode was found, comes
    last, or alone where no site can be scored for it.
    """
    of_leaves = {} if gradient is None else layout.unravel(gradient)
    try:
        sites = _not_finite_sites(target.sites(layout.unravel(position)), target_labels(target))
    except ValueError as error:
        return [str(error).removesuffix(".")]
    return (
        (sites and sites + _errors(target, layout.unravel(position)))
        or not_finite_gradients("log density", of_leaves)
        or [f"the log density is {log_density}, {getattr(target, 'other_cause', _OTHER_CAUSE)}"]
    )


def _errors(target: Target, position: Any) -> list[str]:
    """The words of an error that the density raises at a position where it is not compiled."""
    try:
        target.log_density(position)
    except ValueError as error:
        return [str(error).removesuffix(".")]
    return []


def _not_finite_sites(
    sites: Mapping[str, Any], labels: Mapping[str, Sequence[Any]], scope: str = ""
) -> list[str]:
    """Words for each site whose log probability is not finite somewhere."""
    found = []
    for name, site in sites.items():
        path = f"{scope}{name}"
        if isinstance(site, Mapping):
            found += _not_finite_sites(site, labels, f"{path}.")
            continue
        log_prob = _whole(0.0 if site.log_prob is None else site.log_prob)
        if np.all(np.isfinite(log_prob)):
            continue
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(log_prob))[0])
        element = functools.partial(_element, index, log_prob.shape)
        entry = ", ".join(map(str, name_entry(index, labels.get(path, ()))))
        where = f" at [{entry}]" if index else ""
        what = f"site '{path}' has log probability {log_prob[index]}{_share(log_prob)}"
        value, law = jax.tree.map(element, (site.value, site.distribution))
        shown = (
            value
            if isinstance(value, (int, float))
            else np.array2string(np.asarray(value), threshold=8)
        )
        found.append(
            f"{what}:{where} its value is {shown}{'' if law is None else f', under {law}'}"
        )
    return found


def _element(index: tuple[int, ...], shape: tuple[int, ...], x: Any) -> Any:
    """Element of a value or parameter that belongs to element `index` of a log probability.

    `x` is returned whole if its shape does not tell how it aligns with `shape`.

    Args:
        index: Index into the log probability.
        shape: Shape of the log probability.
        x: Value or parameter.
    """
    shape_here = np.shape(x)
    rank = min(np.ndim(x), len(shape))
    is_leading = shape_here[:rank] == shape[:rank]
    is_trailing = shape_here == shape[-rank:]
    if rank == len(shape) and all(
        n in (1, m) for n, m in zip(shape_here, shape, strict=False)
    ):  # axes of size 1 hold what all elements share
        some = zip(index, shape_here, strict=False)
        x = _whole(x)[tuple(0 if n == 1 else i for i, n in some)]
    elif is_leading != is_trailing:
        x = _whole(x)[index[:rank] if is_leading else index[-rank:]]
    if np.ndim(x) or not hasattr(x, "item"):
        return x
    return float(f"{x:.6g}") if np.issubdtype(x.dtype, np.floating) else x.item()


def _whole(x: Any) -> np.ndarray:
    """An array on the host, with the parts of all processes, each of which makes this call."""
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        x = gather_from_processes(x, tiled=True)
    return np.asarray(x)


def not_finite_gradients(what: str, gradient: Any) -> list[str]:
    """Messages for leaves of a gradient of `what` that are not finite, with the first bad value."""
    message = f"the gradient of the {what} with respect to '{{}}' is {{}}{{}}"
    leaves = [(name, np.asarray(leaf)) for name, leaf in named_leaves(gradient)]
    bad = [(name, leaf) for name, leaf in leaves if not np.all(np.isfinite(leaf))]
    return [message.format(name, x[~np.isfinite(x)][0], _share(x)) for name, x in bad]


def _share(x: np.ndarray) -> str:
    """Number of the elements of an array that are not finite, in words."""
    return f" at {np.sum(~np.isfinite(x))} of {x.size} elements" if np.ndim(x) else ""
