"""Plan of Gibbs sampling: what draws or moves each site of a model, and why."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

import ppl
from inference.kernels.discrete.count_slice import CountSlice
from inference.kernels.discrete.counts import CountKernel
from inference.kernels.discrete.gibbs_with_gradients import GibbsWithGradients
from inference.kernels.discrete.informed import InformedKernel
from inference.kernels.gibbs.full_conditionals import (
    conditional_of,
    coupled_sites,
    draw_jointly,
)
from inference.kernels.gibbs.gibbs import Block, Conjugate, EnumeratedBlock, Gibbs
from inference.kernels.gibbs.path_space import (
    held_sites,
    parameters_of,
    proposed_space,
    state_space_given,
)
from inference.kernels.gradient_free.elliptical_slice import EllipticalSlice
from inference.kernels.gradient_free.kernel import GradientFreeKernel
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.particle.particle_gibbs import ParticleGibbs
from inference.kernels.particle.pmmh import PMMH
from inference.models.quadratic_prior import check_normal
from inference.models.value_target import ValueTarget
from ppl.analysis.dependence import find_ancestors
from ppl.common import distribution_protocol
from ppl.core.model_run import trace_model
from ppl.harvest.jax_core import is_traced
from ppl.harvest.names import nest_by_path
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import Path, join_scopes
from ppl.marginal.finite_supports import find_states, look_at_distributions
from ppl.marginal.full_conditional import FiniteJointConditional

_HEADER = ("site", "by", "reason")
_FINITE = "finite"
_WITHOUT_VALUE = ("deterministic", "summed")  # sites that have no value of their own in a sweep
_COUPLED = "finite and coupled: their states are summed jointly"
_JOINTLY_NORMAL = "jointly normal given all others"
_NO_FORM = "no full conditional in closed form"
_COSTLY = "joint draws would sum over more than 4096 states at once"
_MAX_JOINT_STATES = 4096
_ELLIPSES = (
    "EllipticalSlice() moves sites that are jointly normal given the values of all others, of "
    "which their mean and covariance may be functions. Name other sites, or use Slice() or NUTS()"
)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class PlannedBlock:
    """Sites of a model that move together, and what moves them.

    Attributes:
        paths: The sites.
        kernel: ``Conjugate()``, an :class:`EnumeratedBlock`, or a kernel.
        is_joint: Whether the sites are drawn in one joint draw.
        is_rest: Whether they are those that no block names.
        is_discrete: Whether their values are discrete.
    """

    paths: tuple[Path, ...] = dataclasses.field(metadata={"static": True})
    kernel: Any
    is_joint: bool = dataclasses.field(default=False, metadata={"static": True})
    is_rest: bool = dataclasses.field(default=False, metadata={"static": True})
    is_discrete: bool = dataclasses.field(default=False, metadata={"static": True})

    @property
    def is_drawn(self) -> bool:
        """Whether the sites are drawn from exact full conditionals."""
        return isinstance(self.kernel, Conjugate | EnumeratedBlock)

    @property
    def strategy(self) -> Any:
        """Strategy of ``ppl.marginalize`` that takes the sites out."""
        if isinstance(self.kernel, EnumeratedBlock):
            return ppl.Enumerate(self.kernel.max_states)
        return ppl.Gaussian()


class PlannedSite(NamedTuple):
    """Site in a plan.

    Attributes:
        site: Its name.
        by: What draws or moves it: ``"exact draw"``, or the name of a kernel.
        reason: Why, in words.
    """

    site: str
    by: str
    reason: str


class GibbsPlan(NamedTuple):
    """Plan of Gibbs sampling; it prints as a table.

    Attributes:
        blocks: Blocks in the order of a sweep.
        sites: Sites in the same order, each with what moves it and why.
    """

    blocks: tuple[PlannedBlock, ...]
    sites: tuple[PlannedSite, ...]

    @property
    def lone_kernel(self) -> Any:
        """Hamiltonian kernel of the rest, if it moves all sites; `None` if there are blocks."""
        if len(self.blocks) != 1 or not self.blocks[0].is_rest:
            return None
        kernel = self.blocks[0].kernel
        return kernel if isinstance(kernel, HamiltonianKernel) else None

    def __str__(self) -> str:
        """One line for each site: what draws or moves it, and why."""
        rows = [_HEADER, *self.sites]
        widths = [max(len(row[i]) for row in rows) for i in range(2)]
        lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in rows]
        if (kernel := self.lone_kernel) is not None:
            name = type(kernel).__name__
            lines.append(f"There is no other block: {name} runs by itself")
        return "\n".join(lines)


def gibbs_plan(
    model: Callable[..., Any], *args: Any, kernel: Gibbs | None = None, **kwargs: Any
) -> GibbsPlan:
    """Plan of Gibbs sampling for a model: what moves each site, and why.

    Args:
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        kernel: The kernel; ``Gibbs.auto()`` by default.
        **kwargs: More arguments of the model.

    Returns:
        A plan, which prints as a table.

    Raises:
        ValueError: if the kernel does not fit the model.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist, inference
        >>> def pumps(key, hours):
        ...     alpha = ppl.sample(key, dist.Exponential(1.0), name="alpha")
        ...     beta = ppl.sample(key, dist.Gamma(0.1, 1.0), name="beta")
        ...     rate = ppl.sample(key, dist.Gamma(alpha * jnp.ones(3), beta), name="rate")
        ...     ppl.sample(key, dist.Poisson(rate * hours), name="failures")
        >>> posterior = ppl.condition(pumps, {"failures": jnp.array([5, 1, 14])})
        >>> print(inference.gibbs_plan(posterior, jnp.array([94.3, 15.7, 126.0])))
        site   by          reason
        beta   exact draw  its full conditional is Gamma
        rate   exact draw  its full conditional is Gamma
        alpha  NUTS        no full conditional in closed form
    """
    kernel = Gibbs.auto() if kernel is None else kernel
    if not isinstance(kernel, Gibbs):
        raise TypeError(
            f"gibbs_plan: kernel must be a Gibbs kernel such as Gibbs.auto(), got {kernel!r}"
        )
    return make_plan(kernel, ValueTarget.of(model, args, kwargs))


def make_plan(kernel: Gibbs, base: ValueTarget) -> GibbsPlan:
    """Plan of a kernel for a model.

    Raises:
        ValueError: if a name is not of a latent site, or a site does not fit what is to move it.
    """
    look = _Look(base)
    found = [_plan_block(look, block) for block in kernel.blocks]
    named = {path for planned, _ in found for path in planned.paths}
    rest = [path for path in look.shapes if path not in named]
    reasons = dict.fromkeys(rest, "in no block")
    if kernel.plans_others:
        others, reasons = _plan_others(look, rest, kernel.rest)
        found += others
    rest = list(reasons)
    if rest:
        if isinstance(kernel.rest, ParticleGibbs):
            rest = _check_path(look, rest, kernel.rest)
        else:
            _check_real(look, rest)
            look.check_prior(rest, kernel.rest)
        planned = PlannedBlock(tuple(rest), kernel.rest, is_rest=True)
        name = type(kernel.rest).__name__
        why = [PlannedSite(join_scopes(path), name, reasons[path]) for path in rest]
        found.append((planned, why))
    sites = [site for _, why in found for site in why]
    return GibbsPlan(tuple(planned for planned, _ in found), tuple(sites))


def plan_pmmh(kernel: PMMH, base: ValueTarget) -> GibbsPlan:
    """Plan of particle marginal Metropolis-Hastings: one block, of all sites.

    Raises:
        ValueError: if the model has no scan with observed sites, no parameter, or a discrete one.
    """
    found = _structure("PMMH()", base, {}, parameters_of)
    shapes = dict(base.shapes)
    if not found:
        raise ValueError(
            "PMMH: the model has no parameters, which are latent sites outside of its scan. Move "
            "the path by kernel=ParticleGibbs()"
        )
    discrete = [path for path in found if not is_real(shapes[path])]
    if discrete:
        raise ValueError(
            f"PMMH: site {_names(discrete)} is a parameter and discrete, and a random walk moves "
            "real numbers. Take Gibbs, with ParticleGibbs() for the latent sites of the scan and "
            f"{{{join_scopes(discrete[0])!r}: Enumerate()}}"
        )
    _check_proposal("PMMH()", base, {path: shapes[path] for path in found}, kernel)
    sites = [
        PlannedSite(
            join_scopes(path),
            "PMMH",
            "random walk, by an estimate of the likelihood"
            if path in found
            else "path of a particle",
        )
        for path in shapes
    ]
    return GibbsPlan((PlannedBlock(tuple(shapes), kernel, is_rest=True),), tuple(sites))


def is_real(shape: Any) -> bool:
    """Whether values are floating-point numbers."""
    return jnp.issubdtype(shape.dtype, jnp.floating)


class _Look:
    """Look at the full conditionals of the sites of a model; nothing is evaluated."""

    def __init__(self, base: ValueTarget):
        self.base = base
        self.shapes = dict(base.shapes)
        self.costly: set[Path] = set()  # finite sites whose elements are coupled in large tables

    def path(self, name: str) -> Path:
        """Path of a site by name."""
        paths = {join_scopes(path): path for path in self.shapes}
        if name not in paths:
            raise ValueError(
                f"Gibbs: the model has no latent site {name!r} (observed ones are data, and do not "
                f"move); there are {list(paths)}"
            )
        return paths[name]

    def family(self, path: Path) -> str | None:
        """Name of the full conditional of a site, or `None` if it has no closed form."""

        def look(base: ValueTarget, values: Mapping[Path, Any]) -> None:
            found = conditional_of(base, path, values)
            name = None if found is None else type(found).__name__
            names.append(_FINITE if name and not is_real(self.shapes[path]) else name)
            is_joint = isinstance(found, FiniteJointConditional)
            if is_joint and not found.is_within(_MAX_JOINT_STATES):
                self.costly.add(path)

        names: list[str | None] = []
        jax.eval_shape(look, self.base, self.shapes)
        return names[0]

    def with_ancestors(
        self, left: Mapping[Path, str], paths: Sequence[Path], families: Mapping[Path, str | None]
    ) -> dict[Path, str]:
        """Sites that are left and the real ones that their priors depend on, with reasons.

        A site that is drawn, or that a block of the user moves, is given: no site moves for what
        depends on it through that one.
        """
        if not left:
            return {}
        args, kwargs = self.base.arguments.join(self.base.data)
        graph = ppl.graph(self.base.model)(*args, **kwargs)
        parents = {name: graph.parents(name) for name in graph.nodes}
        free = {join_scopes(path) for path in paths if is_real(self.shapes[path])}

        def passes(name: str) -> bool:
            return name in free or graph.nodes[name].kind in _WITHOUT_VALUE

        names = {path: join_scopes(path) for path in paths}
        ancestors = {names[path]: find_ancestors(parents, [names[path]], passes) for path in left}
        found = {}
        for path in paths:
            child = next((x for x, above in ancestors.items() if names[path] in above), None)
            if path in left:
                found[path] = left[path]
            elif child is not None and names[path] in free:
                why = _of_family(families[path])
                found[path] = f"{why}, but {child} depends on it and moves with it"
        return found

    def within_bounds(self, kernel: Any, paths: Sequence[Path]) -> Any:
        """Kernel of integers whose missing bounds are those of some sites.

        Raises:
            ValueError: if a bound that the kernel needs is not known.
        """
        if not isinstance(kernel, InformedKernel | CountKernel):
            return kernel
        args, kwargs = self.base.arguments.join(self.base.data)
        program = trace_model(self.base.model, None, args, kwargs)
        has_end = kernel.upper is not None or getattr(kernel, "num_values", None) is not None
        if kernel.lower is None:
            kernel = dataclasses.replace(kernel, lower=_least_values(program, paths, kernel))
        if isinstance(kernel, CountKernel):
            return kernel
        if has_end and kernel.num_values is not None:
            return kernel
        if has_end:  # counted here, as bounds are traced later
            form = kernel.form_of(nest_by_path({path: self.shapes[path] for path in paths}))
            return dataclasses.replace(kernel, num_values=kernel.bounds(form)[1])
        try:
            states = find_states(program, paths)
        except ValueError as error:
            raise ValueError(
                f"Gibbs: block {_names(paths)} has no largest value that is known; give it, "
                f"{type(kernel).__name__}(upper=...), or move counts by CountSlice()"
            ) from error
        widest = max(int(states[path].max() - states[path].min()) for path in paths)
        upper = nest_by_path({path: int(states[path].max()) for path in paths})
        return dataclasses.replace(kernel, upper=upper, num_values=widest + 1)

    def kernel_of_integers(self, path: Path) -> Any:
        """Kernel for a discrete site without a full conditional, with the bounds of the site."""
        try:
            return self.within_bounds(GibbsWithGradients(gradient=False), [path])
        except ValueError:
            return self.within_bounds(CountSlice(), [path])

    def why_not_jointly(self, paths: Sequence[Path], strategy: Any) -> str | None:
        """Why sites cannot be drawn in one joint draw, `None` if they can."""

        def look(base: ValueTarget, key: jax.Array, values: Mapping[Path, Any]) -> Any:
            return list(draw_jointly(base, tuple(paths), strategy, key, values).values())

        key = jax.eval_shape(lambda: random.key(0))
        try:
            jax.eval_shape(look, self.base, key, self.shapes)
        except (ValueError, NotImplementedError) as error:
            return _reason_of(error)
        return None

    def check_prior(self, paths: Sequence[Path], kernel: Any) -> None:
        """Checks that sites that an elliptical slice moves are jointly normal given all others.

        Raises:
            ValueError: if their prior given all others is not normal.
        """
        if not isinstance(kernel, EllipticalSlice):
            return
        where = f"Gibbs: block {_names(paths)} by EllipticalSlice(): given all other sites,"
        others = {path: x for path, x in self.shapes.items() if path not in paths}

        def look(base: ValueTarget, values: Mapping[Path, Any]) -> None:
            check_normal(base.given(values), where, _ELLIPSES)

        jax.eval_shape(look, self.base, others)

    def why_not_finite(self, path: Path) -> str:
        """Why a site is not drawn by a sum over its states, where it is not."""
        if is_real(self.shapes[path]):
            return f"site {join_scopes(path)!r} is real"
        args, kwargs = self.base.arguments.join(self.base.data)
        try:
            find_states(trace_model(self.base.model, None, args, kwargs), [path])
        except ValueError as error:
            return _reason_of(error)
        return "its elements are coupled, and their joint states are too many"


def _reason_of(error: Exception) -> str:
    """First sentence of an error of ``ppl.marginalize``, without what it advises there."""
    return str(error).removeprefix("marginalize: ").split(". ")[0].rstrip(".")


def _plan_block(look: _Look, block: Block) -> tuple[PlannedBlock, list[PlannedSite]]:
    """Block of the user in a model."""
    paths = tuple(map(look.path, block.sites))
    shapes = {path: look.shapes[path] for path in paths}
    are_real = {is_real(shape) for shape in shapes.values()}
    if isinstance(block.kernel, EnumeratedBlock):
        planned = PlannedBlock(paths, block.kernel, is_joint=len(paths) > 1)
        why = look.why_not_jointly(paths, planned.strategy) if planned.is_joint else None
        if not planned.is_joint and (are_real == {True} or look.family(*paths) is None):
            why = look.why_not_finite(*paths)
        if why:
            raise ValueError(
                f"Gibbs: block {_names(paths)} by Enumerate(): {why}. Move counts by CountSlice(), "
                "and real sites by Conjugate(), Slice() or the rest"
            )
        return planned, _drawn(paths, "finite: its states are summed")
    if isinstance(block.kernel, Conjugate):
        if len(paths) > 1 and look.why_not_jointly(paths, ppl.Gaussian()) is None:
            planned = PlannedBlock(paths, block.kernel, is_joint=True)
            return planned, _drawn(paths, _JOINTLY_NORMAL)
        sites = []
        for path in paths:
            family = look.family(path)
            if family is None:
                remedy = "Leave it out of the blocks, so that the kernel of the rest moves it"
                if not is_real(look.shapes[path]):
                    remedy = "Move it by CountSlice() or GibbsWithGradients(gradient=False)"
                raise ValueError(
                    f"Gibbs: the full conditional of site {join_scopes(path)!r} is no distribution "
                    f"that ppl.conditional knows. {remedy}"
                )
            sites.extend(_drawn([path], _of_family(family)))
        return PlannedBlock(paths, block.kernel), sites
    if isinstance(block.kernel, ParticleGibbs):
        planned = PlannedBlock(_check_path(look, paths, block.kernel), block.kernel)
        return planned, _by_kernel(paths, block.kernel, "path of a state space model")
    if len(are_real) > 1:
        raise ValueError(
            f"Gibbs: block {_names(paths)} has real and discrete sites, and one kernel moves "
            "either: write a block for each kind"
        )
    is_discrete = are_real == {False}
    _check_kind(paths, block.kernel, is_discrete)
    look.check_prior(paths, block.kernel)
    kernel = look.within_bounds(block.kernel, paths) if is_discrete else block.kernel
    planned = PlannedBlock(paths, kernel, is_discrete=is_discrete)
    reason = "as its block says"
    if any(getattr(block.kernel, name, None) is not None for name in ("lower", "upper")):
        reason += ", within the bounds of its kernel"
    return planned, _by_kernel(paths, block.kernel, reason)


def _least_values(program: Any, paths: Sequence[Path], kernel: Any) -> dict[str, int]:
    """Least value of each site, nested as the scopes are.

    Raises:
        ValueError: if a site has none, or it is not known before the model runs.
    """
    least: dict[Path, int] = {}
    for site, value in look_at_distributions(program.jaxpr, paths, _least_value):
        if value is None:
            raise ValueError(
                f"Gibbs: site {join_scopes(site.path)!r} has no least value that is known; give "
                f"it: {type(kernel).__name__}(lower=...)"
            )
        least[site.path] = min(value, least.get(site.path, value))
    return nest_by_path(least)


def _least_value(_: Any, d: Any) -> int | None:
    """Least value of a discrete distribution, `None` if it has none that is known."""
    while isinstance(d, distribution_protocol.DistributionWrapper):
        d = getattr(d, "base")  # noqa: B009
    support = getattr(distribution_protocol.part_of(d), "support", None)
    low = getattr(support, "members", getattr(support, "low", None))
    if low is None or is_traced(low) or not np.all(np.isfinite(low)):
        return None
    return int(np.min(np.asarray(low)))


def _check_kind(paths: Sequence[Path], kernel: Any, is_discrete: bool) -> None:
    """Check that a kernel moves values of the kind that sites have."""
    name = type(kernel).__name__
    moves_integers = isinstance(kernel, InformedKernel | CountKernel)
    moves_reals = isinstance(kernel, HamiltonianKernel | GradientFreeKernel | EllipticalSlice)
    if moves_reals and is_discrete:
        raise ValueError(
            f"Gibbs: block {_names(paths)} is discrete, and {name} moves real numbers. Move it by "
            "Enumerate() if its values are finite, or by CountSlice()"
        )
    if moves_integers and not is_discrete:
        raise ValueError(
            f"Gibbs: block {_names(paths)} is real, and {name} moves integers. Move it by Slice(), "
            "or leave it to the rest"
        )
    if isinstance(kernel, InformedKernel) and kernel.gradient:
        raise ValueError(
            f"Gibbs: block {_names(paths)}: the density of a model takes integers at discrete "
            f"sites, and has no gradient there. Pass {name}(gradient=False), which evaluates each "
            "neighbor"
        )


def _plan_others(
    look: _Look, paths: Sequence[Path], rest: Any
) -> tuple[list[tuple[PlannedBlock, list[PlannedSite]]], dict[Path, str]]:
    """Blocks for sites that no block of the user names, and the sites that are left, with reasons.

    Sites that the prior of a site depends on hardly move while its values stay, as a scale between
    those of random effects. So a Hamiltonian rest moves them with the sites that it must move.
    """
    families = {path: look.family(path) for path in paths}
    is_left = {path: families[path] is None and is_real(look.shapes[path]) for path in paths}
    left = {path: _NO_FORM for path in paths if is_left[path]}
    if isinstance(rest, HamiltonianKernel):
        left = look.with_ancestors(left, paths, families)
    paths = [path for path in paths if path not in left]
    normal = [path for path in paths if _is_normal(look, path, families[path])]
    joint = _joint_paths(look, normal) if len(normal) > 1 else ()
    found = []
    if joint:
        planned = PlannedBlock(joint, Conjugate(), is_joint=True)
        found.append((planned, _drawn(joint, _JOINTLY_NORMAL)))
    finite = [path for path in paths if families[path] == _FINITE and path not in look.costly]
    for group in _finite_groups(look, finite):
        kernel = EnumeratedBlock(_MAX_JOINT_STATES)
        found.append((PlannedBlock(group, kernel, is_joint=True), _drawn(group, _COUPLED)))
        joint = (*joint, *group)
    for path in paths:
        is_costly = path in look.costly
        if families[path] is not None and path not in joint and not is_costly:
            reason = _of_family(families[path])
            found.append((PlannedBlock((path,), Conjugate()), _drawn([path], reason)))
        elif path not in joint:
            kernel = look.kernel_of_integers(path)
            planned = PlannedBlock((path,), kernel, is_discrete=True)
            reason = _COSTLY if is_costly else _NO_FORM
            found.append((planned, _by_kernel([path], kernel, reason)))
    return found, left


def _finite_groups(look: _Look, paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Coupled sites with finitely many states that are summed jointly at little cost."""
    groups = coupled_sites(look.base, paths) if len(paths) > 1 else []
    strategy = ppl.Enumerate(_MAX_JOINT_STATES)
    return [
        group
        for group in groups
        if len(group) > 1 and look.why_not_jointly(group, strategy) is None
    ]


def _is_normal(look: _Look, path: Path, family: str | None) -> bool:
    return family in ("Normal", "NormalConditional") and is_real(look.shapes[path])


def _joint_paths(look: _Look, normal: Sequence[Path]) -> tuple[Path, ...]:
    """Sites among those of normal full conditionals that are jointly normal: all, or the first."""
    if look.why_not_jointly(normal, ppl.Gaussian()) is None:
        return tuple(normal)
    joint: tuple[Path, ...] = ()
    for path in normal:
        more = (*joint, path)
        if len(more) == 1 or look.why_not_jointly(more, ppl.Gaussian()) is None:
            joint = more
    return joint if len(joint) > 1 else ()


def _check_path(look: _Look, paths: Sequence[Path], kernel: ParticleGibbs) -> tuple[Path, ...]:
    """Sites of a block, checked to be the path of a state space model.

    Raises:
        ValueError: if they are not in a scan with observed sites, or a site is among them that
            particles would keep through all steps, or the proposal finds no site.
    """
    others = {path: shape for path, shape in look.shapes.items() if path not in paths}
    where = f"block {_names(paths)} by ParticleGibbs()"

    def structure(space: Any) -> tuple[list[Path], list[Path]]:
        return list(space.step_sites), held_sites(space)

    steps, held = _structure(where, look.base, others, structure)
    if not steps:
        raise ValueError(
            f"Gibbs: {where}: none of its sites is in the scan. Name the latent sites of the scan, "
            "and leave others to the rest"
        )
    if held:
        raise ValueError(
            f"Gibbs: {where}: {_names(held)} does not enter the first carry only: steps, or data "
            "behind the scan, read it, or the carry passes it on as it is, so that a few of its "
            "values would stand for all particles. Leave it to another block, or to the rest: "
            f"{{{_names(steps)}: ParticleGibbs()}}"
        )
    _check_proposal(f"Gibbs: {where}", look.base, others, kernel)
    return tuple(paths)


def _check_proposal(
    where: str, base: ValueTarget, others: Mapping[Path, Any], kernel: ParticleGibbs | PMMH
) -> None:
    """Check that the proposal of a kernel finds a site, given values of other sites.

    Raises:
        ValueError: if it finds none.
    """

    def look(base: ValueTarget, values: Mapping[Path, Any]) -> None:
        proposed_space(state_space_given(base, values), kernel.proposal)

    try:
        jax.eval_shape(look, base, others)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _structure(
    where: str, base: ValueTarget, others: Mapping[Path, Any], question: Callable[[Any], Any]
) -> Any:
    """Answer to a question on the state space of sites, given others of some shapes.

    Raises:
        ValueError: if they are of no state space.
    """
    found = []

    def look(base: ValueTarget, values: Mapping[Path, Any]) -> None:
        found.append(question(state_space_given(base, values)))

    try:
        jax.eval_shape(look, base, others)
    except (ValueError, NotImplementedError) as error:
        raise type(error)(f"{where} needs a state space model. {error}") from error
    return found[0]


def _check_real(look: _Look, paths: Sequence[Path]) -> None:
    for path in paths:
        if not is_real(look.shapes[path]):
            name = join_scopes(path)
            raise ValueError(
                f"Gibbs: site {name!r} is discrete, and in no block; the kernel of the rest moves "
                f'real numbers. Add {{"{name}": Enumerate()}} if its values are finite, or '
                f'{{"{name}": CountSlice()}}; or plan all other sites by Gibbs.auto'
            )


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(repr(join_scopes(path)) for path in paths)


def _of_family(family: str | None) -> str:
    """Reason for a draw from a full conditional."""
    if family == "NormalConditional":
        return _JOINTLY_NORMAL
    return f"its full conditional is {family}"


def _drawn(paths: Iterable[Path], reason: str) -> list[PlannedSite]:
    return [PlannedSite(join_scopes(path), "exact draw", reason) for path in paths]


def _by_kernel(paths: Iterable[Path], kernel: Any, reason: str) -> list[PlannedSite]:
    name = type(kernel).__name__
    return [PlannedSite(join_scopes(path), name, reason) for path in paths]
