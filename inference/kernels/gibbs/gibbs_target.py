"""Target of Gibbs sampling: a position holds the values of all latent sites, of any kind."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

import ppl
from inference.common.layout import Layout
from inference.initialization.initial_positions import Init
from inference.kernels.discrete.counts import CountKernel
from inference.kernels.discrete.informed import InformedKernel
from inference.kernels.discrete.integers import Bounds, Integers
from inference.kernels.gibbs.gibbs import Gibbs
from inference.kernels.gibbs.gibbs_plan import (
    GibbsPlan,
    PlannedBlock,
    PlannedSite,
    is_real,
    make_plan,
    plan_pmmh,
)
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.particle.particle_gibbs import ParticleGibbs
from inference.kernels.particle.pmmh import PMMH
from inference.models.value_target import ValueTarget
from ppl.analysis.summed_sites import find_approximate
from ppl.core.model_run import trace_model
from ppl.harvest.names import nest_by_path, paths_in
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import Path, join_scopes


@register_dataclass
@dataclasses.dataclass(frozen=True)
class GibbsTarget:
    """Target whose positions are values of all latent sites, real and discrete side by side.

    Attributes:
        base: The model on the values of its latent sites.
        blocks: Blocks of sites in the order of a sweep, the rest among them.
        planned: What moves each site, and why.
    """

    base: ValueTarget
    blocks: tuple[PlannedBlock, ...]
    planned: tuple[PlannedSite, ...] = dataclasses.field(metadata={"static": True})

    # not fields
    mesh = None
    positions_are_values = True
    other_cause = "as a value is out of the bounds of the kernel that moves it"

    @classmethod
    def of(
        cls, model: Any, args: tuple[Any, ...], kwargs: Any, kernel: Gibbs | ParticleGibbs | PMMH
    ) -> "GibbsTarget":
        """Target of a kernel for a model and its arguments.

        Raises:
            ValueError: if a name is not of a latent site, or a site has no full conditional in
                closed form that its block asks for.
        """
        base = ValueTarget.of(model, args, kwargs)
        if isinstance(kernel, PMMH):
            return cls(base, *plan_pmmh(kernel, base))
        if isinstance(kernel, ParticleGibbs):
            kernel = Gibbs({tuple(join_scopes(path) for path in dict(base.shapes)): kernel})
        return cls(base, *make_plan(kernel, base))

    @property
    def plan(self) -> GibbsPlan:
        """The plan: what moves each site, and why."""
        return GibbsPlan(self.blocks, self.planned)

    @property
    def position_shapes(self) -> Any:
        """Shapes and dtypes of a position."""
        return self.base.position_shapes

    @property
    def model(self) -> Any:
        """The model, as a pytree."""
        return self.base.model

    @property
    def data(self) -> list[Any]:
        """Arguments of the model that are arrays or floats."""
        return self.base.data

    @property
    def arguments(self) -> Any:
        """All other arguments."""
        return self.base.arguments

    @property
    def layout(self) -> Layout:
        """Layout of flat positions."""
        return self.base.layout

    @property
    def order(self) -> tuple[tuple[Path, bool], ...]:
        """Paths of the sites in the order of the model, and whether each is deterministic."""
        return self.base.order

    @property
    def approximate(self) -> tuple[Path, ...]:
        """Paths of the sites that `Laplace` has taken out of the model."""
        args, kwargs = self.base.arguments.join(self.base.data)
        return find_approximate(trace_model(self.base.model, None, args, kwargs).jaxpr)

    @property
    def labels(self) -> tuple[tuple[Path, Any], ...]:
        """Labels of sites."""
        return self.base.labels

    def log_density(self, position: Mapping[str, Any]) -> jax.Array:
        """Log density of the values of all latent sites; minus infinity out of bounds."""
        found = self.base.log_density(position)
        values = self.by_path(position)
        for paths, form, (lower, upper) in self._bounds():
            vector = form.ravel(_part(values, paths))
            found = jnp.where(jnp.all((vector >= lower) & (vector <= upper)), found, -jnp.inf)
        return found

    def prior(self, key: jax.Array) -> dict[str, Any]:
        """A position drawn from the prior."""
        args, kwargs = self.base.arguments.join(self.base.data)
        sites = ppl.trace(self.base.model)(key, *args, **kwargs).sites
        sites = dict(paths_in(sites, self.shapes))
        return nest_by_path({path: sites[path].value for path in self.shapes})

    def initial(self, key: jax.Array, values: Any = None) -> dict[str, Any]:
        """A start: prior draws of discrete sites, and of real ones values at uniform positions."""
        return self.start(Init("uniform"), key, values, jnp.int32(0))

    def start(self, init: Init, key: jax.Array, values: Any, attempt: jax.Array) -> dict[str, Any]:
        """A start for chains: `init` is for the real sites, given discrete ones from the prior.

        With a rest that follows gradients, a uniform start is followed by a climb that ends among
        the bulk of the draws: in a sweep, no block leaves a place far off by itself. Values that
        are given stay.
        """
        if init.strategy == "prior":
            return self._within_bounds(self.prior(key))
        for_discrete, for_real = random.split(key)
        shapes = self.shapes
        given = {
            path: jnp.asarray(x, shapes[path].dtype)
            for path, x in paths_in(values or {}, shapes)
            if path in shapes
        }
        discrete = [path for path, shape in shapes.items() if not is_real(shape)]
        kept = {path: x for path, x in given.items() if path in discrete}
        if len(kept) < len(discrete):
            drawn = self.by_path(self._within_bounds(self.prior(for_discrete)))
            kept = {path: drawn[path] for path in discrete} | kept
        found = dict(kept)
        if len(kept) < len(shapes):
            real = nest_by_path({path: x for path, x in given.items() if path not in kept})
            if init.strategy == "uniform" and not real and self.follows_gradients:
                init = dataclasses.replace(init, strategy="bulk")
            rest = self.base.given(kept)
            layout = Layout.of(rest.position_shapes)
            flat = init.position(rest, layout, for_real, real or None, attempt)
            found |= self.by_path(rest.constrain(layout.unravel(flat)))
        return nest_by_path({path: found[path] for path in shapes})

    def _within_bounds(self, position: Mapping[str, Any]) -> dict[str, Any]:
        """A position whose discrete values are within the bounds of the kernels that move them.

        A kernel would never leave a value that is out of its bounds.
        """
        values = self.by_path(position)
        for paths, form, (lower, upper) in self._bounds():
            inside = jnp.clip(form.ravel(_part(values, paths)), lower, upper)
            values |= self.by_path(form.unravel(inside))
        return _part(values, self.shapes)

    def _bounds(self) -> Iterator[tuple[tuple[Path, ...], Integers, Bounds]]:
        """Sites that kernels of integers move, the form of their values, and their bounds."""
        for block in self.blocks:
            kernel = block.kernel
            if isinstance(kernel, InformedKernel | CountKernel):
                form = kernel.form_of(_part(self.shapes, block.paths))
                found = kernel.bounds(form)
                bounds = found if isinstance(found, Bounds) else found[0]
                yield block.paths, form, bounds

    @property
    def follows_gradients(self) -> bool:
        """Whether real sites have a gradient: a Hamiltonian kernel moves some of them."""
        return any(isinstance(block.kernel, HamiltonianKernel) for block in self.blocks)

    @property
    def shapes(self) -> dict[Path, Any]:
        """Shape and dtype of the value of each latent site."""
        return dict(self.base.shapes)

    def by_path(self, position: Mapping[str, Any]) -> dict[Path, Any]:
        """Values of latent sites by path, of nested dicts."""
        shapes = self.shapes
        return {path: x for path, x in paths_in(position, shapes) if path in shapes}

    def constrain(self, position: Mapping[str, Any]) -> dict[str, Any]:
        """Values of latent and deterministic sites at a position."""
        return self.base.constrain(position)

    def sites(self, position: Mapping[str, Any]) -> dict[str, Any]:
        """Sites by name, each with its `value`, `distribution` and `log_prob`."""
        return self.base.sites(position)


class PlannedRun(NamedTuple):
    """Kernel that moves chains of a model, and its target.

    Attributes:
        kernel: The kernel that runs: of Gibbs sampling without any block, that of the rest.
        target: Its target: that of Gibbs sampling, or of unconstrained space for any other.
        plan: The plan of Gibbs sampling, `None` for other kernels.
    """

    kernel: Any
    target: Any
    plan: GibbsPlan | None = None


def plan_run(kernel: Any, model: Any, args: tuple[Any, ...], kwargs: Any) -> PlannedRun:
    """Kernel that runs where a kernel is given, and its target.

    Where Gibbs sampling leaves all sites to a Hamiltonian kernel, it runs by itself: then warm-up
    learns coordinates and mass matrix as for any model.

    Raises:
        TypeError: if the kernel moves integers: a block of Gibbs sampling does.
        ValueError: if the model has no such target.
    """
    plan = None
    if isinstance(kernel, Gibbs | ParticleGibbs | PMMH):
        target = GibbsTarget.of(model, args, kwargs, kernel)
        plan = target.plan
        if plan.lone_kernel is None:
            return PlannedRun(kernel, target, plan)
        kernel = plan.lone_kernel
    if isinstance(kernel, InformedKernel | CountKernel):
        _refuse_integers(kernel, model, args, kwargs)
    return PlannedRun(kernel, ppl.unconstrain(model, *args, **kwargs), plan)


def _refuse_integers(kernel: Any, model: Any, args: tuple[Any, ...], kwargs: Any) -> None:
    """Refuses a kernel of integers that is not in a block.

    Raises:
        TypeError: always.
    """
    shapes = ValueTarget.of(model, args, kwargs).shapes
    discrete = [join_scopes(path) for path, shape in shapes if not is_real(shape)]
    name = type(kernel).__name__
    remedy = "the model has no discrete latent site: take NUTS(), or Slice() without gradients"
    if discrete:
        settings = "gradient=False" if isinstance(kernel, InformedKernel) else ""
        remedy = (
            "give it the discrete sites as a block, "
            f'kernel=inference.Gibbs({{"{discrete[0]}": {name}({settings})}}), beside whose blocks '
            "NUTS moves all other sites"
        )
    raise TypeError(f"{name} moves integers, and mcmc moves unconstrained numbers; {remedy}")


def _part(values: Mapping[Path, Any], paths: Iterable[Path]) -> dict[str, Any]:
    """Values of some sites, nested as their scopes are."""
    return nest_by_path({path: values[path] for path in paths})
