"""Variable elimination over tables of log factors, with plates and chains."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.harvest.leaf_values import vary_alike
from ppl.marginal.factors import (
    EliminationError,
    Gather,
    Local,
    LogFactor,
    Plate,
    Variable,
    largest_log,
    log_sum_exp,
    multiply,
    sampled_log_sum_exp,
    show_count,
    unite_labels,
)
from ppl.marginal.parallel_filter import is_parallel, log_normalizers
from ppl.marginal.split_plates import count_states, sizes_of, split_plate


@dataclasses.dataclass(frozen=True)
class TimePlates:
    """Plates along which variables depend on earlier ones, and the variables before the first step.

    Attributes:
        plates: The plates of chains.
        starts: By variable, the variable that stands for it before the first step.
    """

    plates: Collection[Plate] = ()
    starts: Mapping[Variable, Variable] = dataclasses.field(default_factory=dict)


def _without(label: Any, gathers: tuple[Gather, ...]) -> Any:
    """A label without its `gathers`, if they are these; any other label unchanged."""
    is_read = isinstance(label, Local) and label.gathers == gathers
    return Local(label.variable, label.lag) if is_read else label


class Eliminator:
    """Sum over the states of all variables, in an order of least cost.

    Args:
        sizes: The number of states of each variable.
        plates: The plates of each variable.
        chains: The chains.
        max_states: The largest number of states in one table, over its variables.
        describe: Words for variables and sizes, for errors.
        key: A random key, to draw states instead of weighing them, by the gradient of the sum.
        is_mode: Whether to take the largest product instead of the sum, whose gradient is the most
            probable state.
    """

    def __init__(
        self,
        sizes: Mapping[Variable, int],
        plates: Mapping[Variable, frozenset[Plate]],
        chains: TimePlates,
        max_states: int,
        describe: Callable[[Collection[Variable]], str],
        key: jax.Array | None = None,
        is_mode: bool = False,
    ):
        self._sizes = dict(sizes)
        self._plates = dict(plates)
        self._chains = chains
        self._max_states = max_states
        self._describe = describe
        self._key = key
        self._is_mode = is_mode
        self._num_keys = 0

    def run(self, factors: Sequence[LogFactor]) -> list[LogFactor]:
        """Factors without variables, whose sum over all elements is the log of the sum."""
        left = [self._simplify(f) for f in factors]
        done = [f for f in left if not f.locals]
        left = [f for f in left if f.locals]
        met = _Neighbors(left)
        starts = set(self._chains.starts.values())
        while left:
            found = met.of.keys()
            kinds = {self._plates[v] for v in found}
            largest = [v for v in found if not any(self._plates[v] < each for each in kinds)]
            chained = [v for v in largest if v in met.chained]
            single = [v for v in largest if v not in starts and v not in met.chained]
            if single or not chained:
                v = min(single or largest, key=lambda v: (self._size(met.of[v]), met.names[v]))
                new = self._sum_out(v, left)
            else:
                new = self._sum_chain(chained[0], left)
            before = set(map(id, left))
            after = [f if id(f) in before else self._simplify(f) for f in new]
            done += [f for f in after if not f.locals]
            after = [f for f in after if f.locals]
            met.replace(left, after)
            left = after
        return done

    def multiply(self, factors: Sequence[LogFactor]) -> LogFactor:
        """The product of factors of one variable, with one entry for each element of its plates."""
        return multiply(list(map(self._simplify, factors)))

    def _simplify(self, factor: LogFactor) -> LogFactor:
        """The log factor without what it has beside its variables: plates and indices."""
        return self._reduce(self._scatter(factor))

    def _with(self, v: Variable, factors: Sequence[LogFactor]) -> list[LogFactor]:
        return [f for f in factors if any(x.variable == v for x in f.locals)]

    def _size(self, found: Collection[Local]) -> int:
        return math.prod(self._sizes[x.variable] for x in found)

    def _check(self, labels: Iterable[Any]) -> None:
        """Check the size of a table over some variables; plates do not count."""
        found = {x for x in labels if isinstance(x, Local)}
        if (size := self._size(found)) > self._max_states:
            together = {x.variable for x in found}
            raise EliminationError(
                f"marginalize: {self._describe(together)} depend on one another, and must be "
                f"summed together over {size} states, more than "
                f"max_states={self._max_states}. Sum out fewer sites, or raise max_states."
            )

    def _plates_of(self, x: Local) -> frozenset[Plate]:
        """The plates that a local varies over."""
        own = self._plates[x.variable] - {g.target for g in x.gathers}
        return own.union(*(g.plates for g in x.gathers))

    def _reduce(self, factor: LogFactor) -> LogFactor:
        """The log factor, summed over the plates that none of its variables has."""
        if not factor.locals:
            return factor
        kept = frozenset().union(*map(self._plates_of, factor.locals))
        axes = [
            i for i, x in enumerate(factor.labels) if not isinstance(x, Local) and x not in kept
        ]
        labels = tuple(x for i, x in enumerate(factor.labels) if i not in axes)
        return LogFactor(labels, jnp.sum(factor.table, tuple(axes))) if axes else factor

    def _scatter(self, factor: LogFactor) -> LogFactor:
        """The log factor, with entries that read one element of a variable at indices added up."""
        for x in factor.locals:
            here = {p for g in x.gathers for p in g.plates}
            if any(g.target in factor.labels and g.target not in here for g in x.gathers):
                continue  # It meets all elements along a plate of another variable.
            others = [self._plates_of(y) for y in factor.locals if y.gathers != x.gathers]
            if x.gathers and not any(here & plates for plates in others):
                return self._scatter(self._scatter_by(factor, x.gathers))
        return factor

    def _scatter_by(self, factor: LogFactor, gathers: tuple[Gather, ...]) -> LogFactor:
        over = tuple(dict.fromkeys(p for g in gathers for p in g.plates))
        rest = tuple(y for y in factor.labels if y not in over)
        table = factor.over((*over, *rest))
        index = []
        for gather in gathers:
            sizes = [
                n if p in gather.plates else 1 for p, n in zip(over, table.shape, strict=False)
            ]
            array = jnp.asarray(gather.read())
            order = sorted(range(len(gather.plates)), key=lambda i: over.index(gather.plates[i]))
            array = jnp.transpose(array, order).reshape(sizes)
            index.append(jnp.broadcast_to(array, table.shape[: len(over)]))
        shape = tuple(g.size for g in gathers)
        empty = jnp.zeros((*shape, *table.shape[len(over) :]), table.dtype)
        table = empty.at[tuple(index)].add(table)
        labels = tuple(_without(y, gathers) for y in rest)
        targets = tuple(g.target for g in gathers)
        return self._ordered(LogFactor((*targets, *labels), table))

    def _sum_out(self, v: Variable, factors: Sequence[LogFactor]) -> list[LogFactor]:
        """The factors after one variable has been summed out."""
        mine = self._with(v, factors)
        self._check(unite_labels(mine))
        product = LogFactor(unite_labels(mine), None)  # Its table may be large.
        if not set(product.plates) <= self._plates[v]:
            return self._split_plate(product, factors)
        product = multiply(mine)
        label = Local(v)
        if label not in product.labels or any(
            x.variable == v and x != label for x in product.locals
        ):
            self._refuse(product)
        axis = product.labels.index(label)
        rest = (*product.labels[:axis], *product.labels[axis + 1 :])
        table = self._log_sum(product.table, axis=axis)
        return [f for f in factors if f not in mine] + [LogFactor(rest, table)]

    def _check_plates(self, product: LogFactor, plates: Collection[Plate]) -> None:
        if not set(product.plates) <= set(plates):
            self._refuse(product)

    def _split_plate(self, product: LogFactor, factors: Sequence[LogFactor]) -> list[LogFactor]:
        """The factors, split along the plate with the fewest states that variables differ in."""
        starts = self._chains.starts
        fixed = set(self._chains.plates).union(
            *(self._plates[v] for v in (*starts, *starts.values()) if v in self._plates)
        )
        counts = count_states(product.locals, self._plates, self._sizes, factors, fixed)
        plate = min(counts, key=lambda p: (counts[p], repr(p)), default=None)
        if plate is None or counts[plate] > self._max_states:
            self._refuse(product, counts.get(plate))
        there = [v for v, plates in self._plates.items() if plate in plates]
        num = sizes_of(factors)[plate]
        elements = {v: [Variable(v.path, (*v.element, i)) for i in range(num)] for v in there}
        for v, each in elements.items():
            self._sizes |= dict.fromkeys(each, self._sizes[v])
            self._plates |= dict.fromkeys(each, self._plates[v] - {plate})
        return split_plate(factors, plate, elements)

    def _refuse(self, product: LogFactor, num_states: int | None = None) -> NoReturn:
        """Refuse a product of variables, which has `num_states` if these can be summed at all."""
        together = {x.variable for x in product.locals}
        count = "" if num_states is None else f", over {show_count(num_states)} states"
        limit = "" if num_states is None else f", or raise max_states, which is {self._max_states}"
        raise EliminationError(
            f"marginalize: each element of {self._describe(together)} meets many elements of the "
            f"others, so that all of them would have to be summed together{count}. Sum out one of "
            f"these sites, let each element depend on few others{limit}."
        )

    def _next_key(self) -> Any:
        self._num_keys += 1
        return None if self._key is None else jax.random.fold_in(self._key, self._num_keys)

    def _log_sum(self, x: Any, key: Any = None, axis: int = -1) -> Any:
        """The log of the sum over an axis; with a key, its gradient is a draw of one state.

        The largest number, if it is to be the most probable state.
        """
        if self._is_mode:
            return largest_log(jnp.moveaxis(x, axis, -1))
        if self._key is None:
            return log_sum_exp(x, axis)
        key = self._next_key() if key is None else key
        return sampled_log_sum_exp(jnp.moveaxis(x, axis, -1), key)

    def _sum_chain(self, v: Variable, factors: list[LogFactor]) -> list[LogFactor]:
        """The factors after all variables of a chain have been summed out, step by step."""
        # The axis of time, and the group of variables that share it.
        found = self._plates[v].intersection(self._chains.plates)
        moving = {p for p in found if any(x.lag for f in self._with(v, factors) for x in f.locals)}
        group = [u for u in self._plates if self._plates[u] & found]
        group = [u for u in group if self._with(u, factors)]
        mine = [f for f in factors if any(x.variable in group for x in f.locals)]
        product = LogFactor(unite_labels(mine), None)  # Its table may be large.
        if len(moving) != 1 or any(self._plates[u] != self._plates[v] for u in group):
            self._refuse(product)
        self._check_plates(product, self._plates[v])
        if any(x.gathers for x in product.locals if x.variable in group):
            self._refuse(product)
        (time,) = moving
        # Direction and order of the chain; starts in front of its first step.
        lags = {x.lag for x in product.locals if x.variable in group}
        if min(lags) < 0 < max(lags):
            self._refuse(product)
        sign = -1 if min(lags) < 0 else 1
        order = max(abs(lag) for lag in lags)
        before, factors = self._initial(group, sign, factors)
        if any(f not in factors for f in mine):  # A start meets later steps.
            self._refuse(product)
        # Axes in front of the axes of states: plates, and variables that the chain depends on.
        used = {id(f) for f in mine}
        lead = [p for p in product.plates if p != time]
        lead += [x for x in product.locals if x.variable not in group]
        lead += [x for f in before for x in f.labels if x not in lead and not _is_of(x, group)]
        present = [f for f in mine if all(not x.lag for x in f.locals if x.variable in group)]
        across = [f for f in mine if f not in present]
        # Only these variables of a step depend on the step before.
        linked = [u for u in group if any(Local(u) in f.labels for f in across)]
        past = [[Local(u, sign * lag) for u in group] for lag in range(1, order + 1)]
        sizes = sizes_of([*mine, *before])
        self._check([*lead, *map(Local, linked), *itertools.chain(*past)])

        def flatten(factor: LogFactor, front: Sequence[Any], ends: Sequence[Sequence[Any]]) -> Any:
            """The table with all steps, and an axis for the joint states of each end in `ends`."""
            table = factor.over((*front, *itertools.chain(*ends)))
            full = [sizes[x] if x == time else n for x, n in zip(front, table.shape, strict=False)]
            full += [self._sizes[x.variable] for end in ends for x in end]
            table = jnp.broadcast_to(table, full)
            counts = [math.prod(self._sizes[x.variable] for x in end) for end in ends]
            return table.reshape(*full[: len(front)], *counts)

        # One table for each step, and the messages before the first.
        steps = [flatten(multiply(across), (time, *lead), [[Local(u) for u in linked], *past])]
        if present:
            table = flatten(multiply(present), (time, *lead), [[Local(u) for u in group]])
            steps.append(jnp.expand_dims(table, range(table.ndim, table.ndim + order - 1)))
        count = math.prod(self._sizes[u] for u in group)
        shape = tuple(sizes[x] for x in lead) + (count,) * order
        missing = [u for u in group if u not in self._chains.starts or not before]
        start = flatten(multiply(before), lead, past) if before else 0.0
        start = start - order * sum(math.log(self._sizes[u]) for u in missing)
        alpha = jnp.broadcast_to(start, shape).astype(steps[0].dtype)
        spread = self._spread(group, linked)
        result = LogFactor((time, *lead), self._forward(alpha, steps, order, sign < 0, spread))
        return [f for f in factors if id(f) not in used] + [self._ordered(result)]

    def _spread(self, group: Sequence[Variable], linked: Sequence[Variable]) -> np.ndarray:
        """For each joint state of `group`, the number of the joint state of `linked`."""
        counts = [self._sizes[u] if u in linked else 1 for u in group]
        numbers = np.arange(math.prod(counts)).reshape(counts)
        return np.broadcast_to(numbers, [self._sizes[u] for u in group]).ravel()

    def _ordered(self, factor: LogFactor) -> LogFactor:
        labels = (*factor.locals, *factor.plates)
        return LogFactor(labels, factor.over(labels))

    def _initial(
        self, group: Sequence[Variable], sign: int, factors: list[LogFactor]
    ) -> tuple[list[LogFactor], list[LogFactor]]:
        """The factors of the states before the first step, and all other factors."""
        starts = {self._chains.starts[u]: u for u in group if u in self._chains.starts}
        before = [f for f in factors if any(x.variable in starts for x in f.locals)]

        def rename(x):
            return Local(starts[x.variable], sign) if _is_of(x, starts) else x

        renamed = [LogFactor(tuple(map(rename, f.labels)), f.table) for f in before]
        return renamed, [f for f in factors if f not in before]

    def _forward(
        self, alpha: Any, steps: list[Any], order: int, reverse: bool, spread: np.ndarray
    ) -> Any:
        """The log normalizer of each step given all steps before, by the forward algorithm.

        Args:
            alpha: Log weights of the states before the first step.
            steps: Log weights of the linked states with earlier states; perhaps also a second
                array with log weights of all present states.
            order: The number of steps that the chain looks back.
            reverse: Whether the last step comes first.
            spread: For each joint state of a step, the number of its linked states.
        """
        alpha, *steps = vary_alike([alpha, *steps])
        is_whole = len(spread) == steps[0].shape[-order - 1]
        widen = (lambda x, _: x) if is_whole else (lambda x, axis: jnp.take(x, spread, axis))
        shape = (*steps[0].shape[:-2], len(spread), steps[0].shape[-1])
        is_weighed = self._key is None and not self._is_mode
        if order == 1 and is_weighed and is_parallel(shape):
            matrices = widen(steps[0], -2)
            matrices = functools.reduce(lambda x, y: x + y[..., None], steps[1:], matrices)
            return log_normalizers(alpha, matrices, reverse=reverse)
        keys = None
        if self._key is not None:
            keys = jax.random.split(self._next_key(), len(steps[0]))

        def step(alpha: Any, inputs: Any) -> Any:
            (across, *present), key = inputs
            joint = jnp.expand_dims(alpha, alpha.ndim - order) + across
            new = functools.reduce(jnp.add, present, widen(self._log_sum(joint, key), -order))
            states = tuple(range(new.ndim - order, new.ndim))
            top = lax.stop_gradient(jnp.max(new, states))
            top = jnp.where(jnp.isfinite(top), top, 0.0)
            new = new - jnp.expand_dims(top, states)
            return new, (new, top)

        _, (alphas, tops) = lax.scan(step, alpha, (steps, keys), reverse=reverse)
        if reverse:
            return self._normalizers(alpha, alphas[::-1], tops[::-1], order)[::-1]
        return self._normalizers(alpha, alphas, tops, order)

    def _normalizers(self, start: Any, alphas: Any, tops: Any, order: int) -> Any:
        """Log normalizers from the weights after each step, which are scaled by `tops`."""
        totals = self._all(jnp.concatenate([start[None], alphas]), order, self._next_key())
        now = totals[1:]
        before = totals[:-1]
        was_possible = before > -jnp.inf
        now = jnp.where(was_possible, now, 0.0)
        before = jnp.where(was_possible, before, 0.0)
        return (tops + now - before).at[0].add(totals[0])

    def _all(self, alpha: Any, order: int, key: Any) -> Any:
        """The log of the sum over the states of all lags."""
        return self._log_sum(alpha.reshape(*alpha.shape[: alpha.ndim - order], -1), key)


def _is_of(label: Any, variables: Collection[Variable]) -> bool:
    return isinstance(label, Local) and label.variable in variables


class _Neighbors:
    """The variables of factors, and what each one meets in them.

    Attributes:
        of: By variable, all that its factors read, itself included.
        chained: The variables that are read some steps earlier.
        names: A text for each variable, by which equal costs are told apart.
    """

    def __init__(self, factors: Sequence[LogFactor]):
        self.of: dict[Variable, set[Local]] = {}
        self.chained: set[Variable] = set()
        self.names: dict[Variable, str] = {}
        self._factors: dict[Variable, list[LogFactor]] = {}
        self.replace([], factors)

    def replace(self, before: Sequence[LogFactor], after: Sequence[LogFactor]) -> None:
        """Exchange factors; what is in both stays."""
        old = set(map(id, before))
        new = set(map(id, after))
        changed: dict[Variable, None] = {}
        for factor in (f for f in before if id(f) not in new):
            for v in dict.fromkeys(x.variable for x in factor.locals):
                self._factors[v].remove(factor)
                changed[v] = None
        for factor in (f for f in after if id(f) not in old):
            for v in dict.fromkeys(x.variable for x in factor.locals):
                self._factors.setdefault(v, []).append(factor)
                changed[v] = None
        for v in changed:
            self._update(v)

    def _update(self, v: Variable) -> None:
        found = {x for f in self._factors[v] for x in f.locals}
        self.chained.discard(v)
        self.of.pop(v, None)
        if not found:
            return
        self.of[v] = found
        self.names.setdefault(v, repr(v))
        if any(x.lag for x in found if x.variable == v):
            self.chained.add(v)
