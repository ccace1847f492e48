"""Fits to many data sets, whose chains are one pool: prepared, described and made."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ppl
from inference.chains.recorder import KeptSites
from inference.chains.samples import check_sites
from inference.chains.target_pool import (
    PoolDraws,
    TargetPool,
    Targets,
    make_batch,
    sample_batches,
)
from inference.chains.traced_run import RunDraws
from inference.checkpoints.job_folder import JobFolder
from inference.checkpoints.manifest import THE_STEP
from inference.common.leaf_names import named_leaves
from inference.common.serialization import restore_structure
from inference.common.target import is_of_values, named_sites
from inference.common.threefry import seed_of
from inference.drivers.checkpoints import check_kept, kept_sites
from inference.drivers.data_sets import check_indices_of_each, data_set, stack_data_sets
from inference.drivers.job_checkpoints import run_jobs
from inference.drivers.jobs import Jobs
from inference.drivers.run_description import (
    describe_call,
    describe_data,
    describe_key,
    describe_model,
    describe_object,
    describe_programs,
)
from inference.drivers.run_settings import NUM_CHAINS, NUM_DRAWS, NUM_WARMUP
from inference.drivers.sampler import check_run, facts_of, rate_of, whole_run
from inference.kernels.gibbs.gibbs_target import plan_run
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.results.mcmc_results import MCMCResults
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown, show_progress
from ppl.common.arguments import Arguments
from ppl.common.foreign_arrays import convert_arguments
from ppl.common.row_order import check_row_orders


@dataclasses.dataclass(frozen=True)
class PooledFits:
    """Fits to all data sets of a call, checked, with nothing computed yet.

    Attributes:
        key: Random key.
        model: The model.
        args: Its arguments, with the data sets in front where they differ.
        kwargs: Its keyword arguments.
        is_stacked: Whether each leaf of `args` has the data sets in front.
        target: Density of the first data set.
        pool: Chains of all data sets.
        num_warmup: Iterations of warm-up of each chain.
        rate: Acceptance rate that warm-up aims at, or `None`.
        kept: Names of the sites that are kept; `None` for all.
        shapes: Values of these sites, as shapes.
    """

    key: jax.Array
    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_stacked: list[bool]
    target: Any
    pool: TargetPool
    num_warmup: int
    rate: float | None
    kept: tuple[str, ...] | None
    shapes: Any

    @classmethod
    def of(
        cls,
        key: jax.Array,
        model: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        in_axes: Any,
        *,
        kernel: Kernel = NUTS(),
        num_warmup: int = NUM_WARMUP,
        num_draws: int = NUM_DRAWS,
        num_chains: int = NUM_CHAINS,
        target_acceptance_rate: float | None = None,
        keep: str | Sequence[str] | None = None,
    ) -> "PooledFits":
        """Fits from the arguments of :func:`mcmc_each`.

        Raises:
            TypeError: if an argument has the wrong type.
            ValueError: if a value is out of range, `in_axes` does not fit the arguments, or models
                of two data sets have different sites.
        """
        numbers = check_run(kernel, num_warmup, num_draws, num_chains, target_acceptance_rate)
        num_warmup, num_draws, num_chains = numbers
        check_row_orders(model, args, kwargs)
        args, kwargs = convert_arguments(args, kwargs)
        args, is_stacked, num = stack_data_sets(args, in_axes)
        check_indices_of_each(model, args, is_stacked, num, kwargs)
        planned = plan_run(kernel, model, data_set(args, is_stacked, 0), kwargs)
        first: Any = put_on_common_devices(planned.target)
        rate = rate_of(planned.kernel, target_acceptance_rate)
        if is_of_values(first):
            targets = _gibbs_targets_of(first, args, kwargs)
        else:
            targets = _targets_of(first, model, args, is_stacked, num, kwargs)
        kept = check_kept(keep, named_sites(first))
        shapes = jax.eval_shape(KeptSites(first, kept).constrain, first.position_shapes)
        check_sites(shapes)
        run = whole_run(planned.kernel, first, num_warmup, num_draws, rate, kept)
        pool = TargetPool(np.asarray(seed_of(key)), run, targets, num, num_chains)
        given = key, model, args, kwargs, is_stacked
        return cls(*given, first, pool, num_warmup, rate, kept, shapes)

    def describe(self) -> dict[str, Any]:
        """Entries of a manifest: settings, arguments, and programs of all that may be code."""
        sites = named_leaves(self.target.position_shapes)
        return {
            "key": describe_key(self.key),
            "number of data sets": self.pool.num_targets,
            "in_axes": [0 if flag else None for flag in self.is_stacked],
            "sites": {name: [list(x.shape), str(x.dtype)] for name, x in sites},
            **describe_call(self.args, self.kwargs, self.model),
            **describe_data(self.target),
            "the model's program": describe_model(self.target),
            **self.describe_run(),
        }

    def describe_run(self) -> dict[str, Any]:
        """Entries of a manifest on the chains alone, without the model and its arguments."""
        run = self.pool.run
        seed = jax.ShapeDtypeStruct((2,), np.uint32)
        return {
            "kernel": describe_object(run.kernel),
            "num_warmup": self.num_warmup,
            "num_draws": run.num_draws,
            "num_chains": self.pool.num_chains,
            "target_acceptance_rate": self.rate,
            "keep": None if self.kept is None else list(self.kept),
            "chains of a job": self.pool.batch_size,
            THE_STEP: describe_programs((_one_chain, run, seed, self.target)),
        }

    def make(
        self, jobs: Jobs, folder: JobFolder | None, progress: Shown, what: str = "data set"
    ) -> MCMCResults:
        """Results of all fits.

        Args:
            jobs: Where batches of chains are made.
            folder: Folder with the batches that are finished, or `None`.
            progress: Whether to show a bar.
            what: Name of a data set, for errors.
        """
        pool = self.pool
        draws = PoolDraws(pool)
        num_done = 0

        def put(i: int, made: RunDraws) -> None:
            nonlocal num_done
            draws.put(i, made)
            num_done += len(pool.chains_of(i))

        def take(i: int, made: RunDraws) -> None:
            put(i, made)
            if folder is not None:
                folder.record(i, made._asdict())

        def look() -> None:
            report(num_done)
            if folder is not None:
                folder.write_if_due()

        numbers = range(pool.num_batches)
        with settings(None), show_progress(progress, pool.size, "chain") as report:
            if jobs.executor is None:
                found = [i for i in numbers if folder is not None and i in folder]
                for i in found:
                    assert folder is not None
                    put(i, self._restore(folder.take(i)))
                lacking = sorted({*numbers} - {*found})
                sample_batches(pool, lacking, take, look)
            else:
                names = [self._name_of(i, what) for i in numbers]
                made = run_jobs(
                    jobs,
                    folder,
                    make_batch,
                    names,
                    lambda i: (pool.batch(i),),
                    one_at_a_time=False,
                )
                for i, fields in enumerate(made):
                    put(i, self._restore(fields))
                    report(num_done)
        facts = facts_of(self.target, self.num_warmup, self.rate)
        sites = kept_sites(self.target, self.kept)
        return MCMCResults(**draws.by_target()._asdict(), facts=facts, sites=sites)

    def _restore(self, fields: dict[str, Any]) -> RunDraws:
        """Draws of a batch, with the structure of sites, of which a folder keeps only leaves."""
        made = RunDraws(**fields)
        return made._replace(draws=restore_structure(made.draws, self.shapes))

    def _name_of(self, i: int, what: str) -> str:
        """Name of a batch, for errors."""
        chains = self.pool.chains_of(i)
        first, last = (x // self.pool.num_chains for x in (chains[0], chains[-1]))
        if first == last:
            return f"the fit to {what} {first}"
        return f"one of the fits to {what}s {first} to {last}"


def _one_chain(run: Any, seed: jax.Array, target: Any) -> Any:
    return run.one_chain(seed, target)


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
    sets = (data_set(args, is_stacked, i) for i in range(1, num))
    each = [first, *(ppl.unconstrain(model, *one, **kwargs) for one in sets)]
    for i, target in enumerate(each):
        if jax.tree.structure(target) != jax.tree.structure(first):
            raise ValueError(
                f"data set {i}: its model has other sites, or another number of missing entries, "
                "than that of data set 0; fit it apart, by mcmc"
            )
    return Targets.of(first, jax.tree.map(lambda *x: jnp.stack(x), *map(jax.tree.leaves, each)))
