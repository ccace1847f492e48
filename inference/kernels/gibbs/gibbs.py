"""Gibbs sampling: blocks of sites, each drawn exactly or moved by a kernel of its own."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from inference.common.argument_checks import short_repr
from inference.kernels.gradient_free.elliptical_slice import EllipticalSlice
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.kernels.inner_kernel import check_inner_kernel
from inference.kernels.particle.particle_gibbs import ParticleGibbs
from inference.kernels.particle.pmmh import PMMH
from ppl import Enumerate
from ppl.harvest.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Conjugate:
    """Block of :class:`Gibbs` whose sites are drawn from their exact full conditionals.

    They are those that ``ppl.conditional`` derives from the model. Sites that are jointly normal
    given all others are drawn together, others one after the other. No proposal is rejected, and
    nothing is tuned.
    """


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Block:
    """Sites that move together, and what moves them.

    Attributes:
        sites: Names of the sites, "scope.name" for one in a scope.
        kernel: ``Conjugate()``, an :class:`EnumeratedBlock`, or a kernel.
    """

    sites: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    kernel: Any = Conjugate()


@register_dataclass
@dataclasses.dataclass(frozen=True)
class EnumeratedBlock:
    """``ppl.Enumerate`` as the kernel of a block.

    Attributes:
        max_states: The largest number of states of a table.
    """

    max_states: int = dataclasses.field(metadata={"static": True})


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Gibbs:
    """Gibbs sampling: each block of sites in turn, given the values of all others.

    | block by | moves |
    |---|---|
    | ``Conjugate()`` | draws from the full conditionals that the library derives from the model |
    | ``Enumerate()`` | draws finite sites jointly, by sums over their states |
    | a kernel, such as ``Slice()`` | unconstrained values of real sites; values of discrete ones |
    | ``EllipticalSlice()`` | real sites that are jointly normal a priori, given all others |
    | ``ParticleGibbs()`` | the path of a state space model: latent sites of a ``lax.scan`` |

    All sites that no block names move together by the kernel `rest`. A kernel sees the terms of
    the log density that depend on its block: sites beyond the Markov blanket are neither evaluated
    nor differentiated. What it caches is evaluated anew in each sweep, as the others have moved.
    In warm-up every kernel adapts to its own block.

    Attributes:
        blocks: Kernels by site, or by tuple of sites; the order is that of a sweep.
        rest: Kernel of the sites that no block names, without a log density.
        plans_others: Whether these sites are planned first, as :meth:`auto` says, so that `rest`
            moves those that are left.

    Raises:
        TypeError: if blocks are not a dict of names, or a kernel is none.
        ValueError: if there is no block, a site is in two blocks, or a kernel has a log density.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> import ppl, distributions as dist, inference
        >>> def model(key):
        ...     p = ppl.sample(key, dist.Beta(2.0, 2.0), name="p")
        ...     z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(4, p)), name="z")
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     ppl.sample(key, dist.Normal(jnp.where(z == 1, mu, 0.0), 1.0), name="y")
        >>> posterior = ppl.condition(model, {"y": jnp.array([0.1, 2.9, 3.1, -0.2])})
        >>> blocks = {"z": inference.Enumerate(), "p": inference.Conjugate()}
        >>> kernel = inference.Gibbs(blocks, rest=inference.NUTS())
        >>> result = inference.mcmc(jax.random.key(0), posterior, kernel=kernel, num_warmup=200)
        >>> result.draws["z"].dtype.kind, result.draws["z"].shape
        ('i', (4, 1000, 4))

    References:
        Geman and Geman (1984), Stochastic relaxation, Gibbs distributions, and the Bayesian
        restoration of images.
    """

    blocks: Any
    rest: Any = NUTS()
    plans_others: bool = dataclasses.field(default=False, metadata={"static": True})

    @classmethod
    def auto(cls, blocks: Mapping[Any, Any] | None = None, *, rest: Kernel = NUTS()) -> "Gibbs":
        """Kernel whose blocks are planned from the model.

        Every site with an exact full conditional is drawn from it: sites that are jointly normal
        together, and discrete ones that are coupled, if tables of 4,096 states suffice. Other
        discrete sites move by ``CountSlice()``, or by ``GibbsWithGradients(gradient=False)`` where
        their values are finite in number; `rest` moves all other real sites together. Where `rest`
        follows gradients, it moves the real sites with them that their priors depend on, as scales
        of random effects: drawn in turn, such sites hold each other. Where these are all sites, the
        run is that of ``mcmc(kernel=rest)``.
        ``inference.gibbs_plan(model, *args)`` gives the plan, with reasons.

        Args:
            blocks: Blocks that are not to be planned, as for :class:`Gibbs`.
            rest: Kernel of the real sites without a full conditional.
        """
        if isinstance(blocks, Kernel):
            made = blocks if isinstance(blocks, type) else type(blocks)
            raise TypeError(
                "Gibbs.auto: blocks must be a dict by site; the kernel of the rest is by name, "
                f"Gibbs.auto(rest={made.__name__}())"
            )
        return cls({} if blocks is None else blocks, rest, plans_others=True)

    def __post_init__(self) -> None:
        if isinstance(self.blocks, Mapping):
            _check_kernel("rest", self.rest)
            blocks = tuple(_block_of(sites, kernel) for sites, kernel in self.blocks.items())
            object.__setattr__(self, "blocks", blocks)
            _check_distinct(blocks)
            if not blocks and not self.plans_others:
                name = type(self.rest).__name__
                raise ValueError(
                    "Gibbs: there is no block, so the rest would move all sites. Take Gibbs.auto() "
                    f"to plan blocks from the model, or kernel={name}() alone"
                )
        elif self.blocks is None or isinstance(self.blocks, str | int | float | list | set | type):
            raise TypeError(f"Gibbs: blocks must be a dict by site, got {short_repr(self.blocks)}")

    def init(self, position: Any) -> Any:
        """Refused: a Gibbs kernel needs a model, whose conditionals it draws from."""
        raise TypeError("Gibbs reads a model: pass it to inference.mcmc(kernel=Gibbs(...))")

    def step(self, key: Any, state: Any) -> Any:
        """Refused, as :meth:`init`."""
        return self.init(state)

    def adapt(self, state: Any, info: Any, iteration: Any, num_warmup: Any) -> Any:
        """Refused, as :meth:`init`."""
        return self.init(state)


def _check_distinct(blocks: tuple[Block, ...]) -> None:
    names = [name for block in blocks for name in block.sites]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Gibbs: site {name!r} is in {names.count(name)} blocks, expected one")


def _block_of(sites: Any, kernel: Any) -> Block:
    names = (sites,) if isinstance(sites, str) else sites
    if not isinstance(names, tuple) or not names or not all(isinstance(x, str) for x in names):
        raise TypeError(
            "Gibbs: blocks are by name of a site, or by tuple of names, such as "
            f'{{"z": Enumerate(), ("a", "b"): Conjugate()}}, got {short_repr(sites)}'
        )
    if isinstance(kernel, Enumerate):
        return Block(names, EnumeratedBlock(kernel.max_states))
    if not isinstance(kernel, Conjugate):
        _check_kernel(f"block {short_repr(sites)}", kernel)
    return Block(names, kernel)


def _check_kernel(what: str, kernel: Any) -> None:
    """Checks that a kernel can move a block.

    Raises:
        TypeError: if it is not a kernel of one chain, or is a Gibbs kernel.
        ValueError: if it has a log density of its own.
    """
    expected = "a kernel such as NUTS()"
    if what != "rest":
        expected = "Conjugate(), Enumerate(), or a kernel such as Slice()"
    if isinstance(kernel, Gibbs):
        remedy = ""
        if what == "rest" and kernel.plans_others:
            remedy = "; to plan all other sites, give the blocks to Gibbs.auto({...})"
        raise TypeError(f"Gibbs: {what} must be {expected}, got a Gibbs kernel{remedy}")
    if isinstance(kernel, PMMH):
        raise TypeError(
            f"Gibbs: {what} must be {expected}, got PMMH(), which moves all sites of a model. Take "
            "kernel=PMMH(), or ParticleGibbs() for the block of the path"
        )
    if isinstance(kernel, EllipticalSlice):
        _check_bare(what, kernel, "prior and likelihood are")
        return
    if isinstance(kernel, ParticleGibbs):
        _check_bare(what, kernel, "the state space is")
        return
    source = "the model gives it, given all other blocks"
    check_inner_kernel(f"Gibbs: {what}", kernel, source, expected, needs_refresh=False)


def _check_bare(what: str, kernel: EllipticalSlice | ParticleGibbs, are: str) -> None:
    """Checks that a kernel has none of what the model gives it.

    Raises:
        ValueError: if it has.
    """
    given = [
        field.name
        for field in dataclasses.fields(kernel)
        if field.default is None
        and not field.metadata.get("static")
        and getattr(kernel, field.name) is not None
    ]
    if given:
        raise ValueError(
            f"Gibbs: {what} has {', '.join(given)} of its own, but {are} the model's, given all "
            f"other blocks: pass {type(kernel).__name__}() without"
        )
