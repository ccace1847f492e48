"""mcmc_each: Markov chain Monte Carlo on many data sets of one model."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ppl
from inference.chains.target_pool import Targets, sample_pool
from inference.common.target import is_of_values, named_sites
from inference.drivers.check_inputs import check_inputs
from inference.drivers.checkpoints import check_kept, kept_sites
from inference.drivers.run_settings import (
    NUM_CHAINS,
    NUM_DRAWS,
    NUM_WARMUP,
)
from inference.drivers.sampler import check_run, facts_of, rate_of, whole_run
from inference.kernels.gibbs.gibbs_target import plan_run
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.results.mcmc_results import MCMCResults
from inference.runtime.devices import copy_to_default_device
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown, show_progress
from ppl.common.arguments import Arguments
from ppl.common.columns import Columns
from ppl.common.foreign_arrays import convert_arguments
from ppl.common.row_order import check_row_orders


def mcmc_each(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    in_axes: int | Sequence[Any] | None = 0,
    kernel: Kernel = NUTS(),
    num_warmup: int = NUM_WARMUP,
    num_draws: int = NUM_DRAWS,
    num_chains: int = NUM_CHAINS,
    target_acceptance_rate: float | None = None,
    progress: Shown = None,
    keep: str | Sequence[str] | None = None,
    **kwargs: Any,
) -> MCMCResults:
    """Markov chain Monte Carlo on many data sets of one model, in one compiled program.

    The chains of all data sets form one pool. On the CPU a core takes one chain after the other,
    each with its own data, so that no chain waits for another; on an accelerator they move side by
    side. A chain starts and adapts by itself, with a diagonal mass matrix, as under
    :func:`sampler`. Draws of a data set depend only on the key, its number and its data.

    Args:
        key: Typed or legacy key.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model, with an axis over data sets where `in_axes` says so.
        in_axes: Axes of the data sets, as in ``jax.vmap``: an integer or `None` for all arguments,
            or a tuple with an integer, `None` or a pytree of these for each argument. An argument
            with `None` is shared.
        kernel: Kernel of one chain that takes the log density of the model or reads the model, as
            in :func:`sampler`. Gibbs sampling of all data sets follows the plan of the first one.
        num_warmup: Iterations of warm-up per chain, not kept.
        num_draws: Draws to keep per chain; another number compiles anew.
        num_chains: Number of chains of each data set.
        target_acceptance_rate: Mean acceptance rate that the step size is adapted to, as in
            :func:`mcmc`.
        progress: Whether to show a bar; by default in a terminal and in a notebook.
        keep: Names of the sites whose draws are kept, as in :func:`mcmc`; by default all.
        **kwargs: More arguments of the model, which all data sets share.

    Returns:
        The fits: ``fits[i]`` is an :class:`MCMCResult`, and draws are
        ``(dataset, chain, draw, *shape)``. A chain that found no start of finite density has draws
        of NaN, or integers without a meaning; the summary says so.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range, `in_axes` does not fit the arguments, the numbers of
            data sets of two arguments differ, or models of two data sets have different sites.

    Example:
        >>> import ppl, distributions as dist
        >>> def posterior(key, y, scale):
        ...     def model(key):
        ...         mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...         return ppl.sample(key, dist.Normal(mu, scale), name="y")
        ...     return ppl.condition(model, {"y": y})(key)
        >>> y = jnp.linspace(-2.0, 2.0, 5)
        >>> fits = mcmc_each(jax.random.key(0), posterior, y, 4.0, in_axes=(0, None))
        >>> fits.draws["mu"].shape, fits[1].draws["mu"].shape
        ((5, 4, 1000), (4, 1000))
    """
    check_inputs(mcmc_each, key, model, args, kwargs)
    numbers = check_run(kernel, num_warmup, num_draws, num_chains, target_acceptance_rate)
    num_warmup, num_draws, num_chains = numbers
    check_row_orders(model, args, kwargs)
    args, kwargs = convert_arguments(args, kwargs)
    args, is_stacked, num = _stack(args, in_axes)
    planned = plan_run(kernel, model, _data_set(args, is_stacked, 0), kwargs)
    first: Any = copy_to_default_device(planned.target)
    rate = rate_of(planned.kernel, target_acceptance_rate)
    if is_of_values(first):
        targets = _gibbs_targets_of(first, args, kwargs)
    else:
        targets = _targets_of(first, model, args, is_stacked, num, kwargs)
    kept = check_kept(keep, named_sites(first))
    run = whole_run(planned.kernel, first, num_warmup, num_draws, rate, kept)
    with settings(None), show_progress(progress, num * num_chains, "chain") as report:
        on_progress = report if report.is_shown else None
        made = sample_pool(key, run, targets, num, num_chains, on_progress)
    facts = facts_of(first, num_warmup, rate)
    return MCMCResults(**made._asdict(), facts=facts, sites=kept_sites(first, kept))


def _stack(args: tuple[Any, ...], in_axes: Any) -> tuple[tuple[Any, ...], list[bool], int]:
    """Arguments with the data sets in front, whether each leaf has them, and their number.

    Raises:
        TypeError: if `in_axes` holds anything but integers and `None`, or an argument is a list
            of tables.
        ValueError: if `in_axes` does not fit the arguments, or numbers of data sets differ.
    """
    axes = _spread_axes(args, in_axes)
    _check_tables(args, in_axes)
    leaves, tree = jax.tree_util.tree_flatten_with_path(args)
    stacked = []
    sizes = {}
    for (path, leaf), axis in zip(leaves, axes, strict=True):
        if axis is None:
            stacked.append(leaf)
            continue
        name = f"argument {path[0].idx + 1}{jax.tree_util.keystr(path[1:])} of the model"
        shape = np.shape(leaf)
        if not -len(shape) <= axis < len(shape):
            raise ValueError(
                f"in_axes: {name} has the shape {shape}, and so no axis {axis} over data sets; "
                "give None for an argument that all data sets share"
            )
        sizes[name] = shape[axis]
        stacked.append(jnp.moveaxis(jnp.asarray(leaf), axis, 0))
    if not sizes:
        raise ValueError(
            f"in_axes: no argument has an axis over data sets, got {in_axes!r} for {len(args)} "
            "arguments; for one data set use mcmc"
        )
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} of {name}" for name, size in sizes.items())
        raise ValueError(f"in_axes: numbers of data sets differ: {told}")
    num = next(iter(sizes.values()))
    if not num:
        raise ValueError(f"in_axes: there are no data sets: {next(iter(sizes))} is empty")
    return jax.tree.unflatten(tree, stacked), [axis is not None for axis in axes], num


def _check_tables(args: tuple[Any, ...], in_axes: Any) -> None:
    """Check that no argument with data sets is a list of tables.

    Raises:
        TypeError: if there is one.
    """
    each = tuple(in_axes) if isinstance(in_axes, list | tuple) else (in_axes,) * len(args)
    for i, (given, axis) in enumerate(zip(args, each, strict=True)):
        is_list = isinstance(given, list | tuple) and any(isinstance(x, Columns) for x in given)
        if is_list and axis is not None:
            raise TypeError(
                f"argument {i + 1} of the model is a {type(given).__name__} of tables, and data "
                "sets are an axis of arrays. Give one Dataset of xarray whose first dimension is "
                "that of the data sets, and that has no names of rows: "
                "xarray.concat([x.to_xarray() for x in tables], 'dataset').drop_vars('index')"
            )


def _spread_axes(args: tuple[Any, ...], in_axes: Any) -> list[int | None]:
    """Axis of each leaf of the arguments."""

    def is_none(x):
        return x is None

    if not isinstance(in_axes, int | None):
        in_axes = tuple(in_axes)
        if len(in_axes) != len(args):
            raise ValueError(
                f"in_axes has {len(in_axes)} entries for {len(args)} arguments of the model "
                f"(without its key), got {in_axes!r}; give one for each"
            )
    for axis in jax.tree.leaves(in_axes, is_leaf=is_none):
        if not isinstance(axis, int | None) or isinstance(axis, bool):
            raise TypeError(f"in_axes must hold integers and None, got {axis!r} in {in_axes!r}")
    try:
        spread = jax.tree.map(
            lambda axis, part: [axis] * len(jax.tree.leaves(part)), in_axes, args, is_leaf=is_none
        )
    except ValueError as error:
        raise ValueError(
            f"in_axes {in_axes!r} has not the structure of the arguments {jax.tree.structure(args)}"
        ) from error
    return jax.tree.leaves(spread, is_leaf=is_none)


def _data_set(args: Any, is_stacked: list[bool], i: int) -> Any:
    """Arguments of one data set."""
    leaves, tree = jax.tree.flatten(args)
    parts = [x[i] if flag else x for x, flag in zip(leaves, is_stacked, strict=True)]
    return jax.tree.unflatten(tree, parts)


def _gibbs_targets_of(first: Any, args: Any, kwargs: dict[str, Any]) -> Targets:
    """Targets of Gibbs sampling of all data sets: all follow the plan of the first one."""
    _, data = Arguments.split(args, kwargs)
    base = dataclasses.replace(first.base, data=data)
    return Targets.of(first, jax.tree.leaves(dataclasses.replace(first, base=base)))


def _targets_of(
    first: Any, model: Any, args: Any, is_stacked: list[bool], num: int, kwargs: dict[str, Any]
) -> Targets:
    """Targets of all data sets.

    Targets share everything with the first one but their data. If entries of data are missing, a
    target also has its own places of missing entries.
    """
    if not first.values:
        _, data = Arguments.split(args, kwargs)
        return Targets.of(first, jax.tree.leaves(dataclasses.replace(first, data=data)))
    sets = (_data_set(args, is_stacked, i) for i in range(1, num))
    each = [first, *(ppl.unconstrain(model, *one, **kwargs) for one in sets)]
    for i, target in enumerate(each):
        if jax.tree.structure(target) != jax.tree.structure(first):
            raise ValueError(
                f"data set {i}: its model has other sites, or another number of missing entries, "
                "than that of data set 0; fit it apart, by mcmc"
            )
    return Targets.of(first, jax.tree.map(lambda *x: jnp.stack(x), *map(jax.tree.leaves, each)))
