"""Target in the standard coordinates of a fitted guide, for chains with a neural transport."""

import dataclasses
from typing import Any

import jax

from inference.common.layout import Layout
from inference.common.target import Target
from ppl.harvest.pytrees import register_dataclass

_NAME = "standard"  # of the coordinates in a position


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TransportedTarget:
    r"""Target over standard coordinates `z`, which a guide's map `T` takes to unconstrained space.

    .. math:: \log p_T(z) = \log p(T(z)) + \log |\det \partial T(z) / \partial z|

    If the guide fits `p` well, the density over `z` is close to the standard normal density, which
    chains move through with ease. If it fits badly, chains are slow, and their draws are still
    draws of `p`.

    Attributes:
        base: Target on unconstrained space.
        guide: Guide with `forward` and `inverse`.
        parameters: Its parameters, which are data: another fit compiles nothing.

    References:
        Parno and Marzouk (2018), Transport map accelerated Markov chain Monte Carlo, SIAM/ASA
        Journal on Uncertainty Quantification 6; Hoffman, Sountsov, Dillon, Langmore, Tran and
        Vasudevan (2019), NeuTra-lizing bad geometry in Hamiltonian Monte Carlo using neural
        transport, section 2.
    """

    base: Any
    guide: Any
    parameters: Any

    @property
    def layout(self) -> Layout:
        """Layout of positions on unconstrained space."""
        return Layout.of(self.base.position_shapes)

    @property
    def position_shapes(self) -> dict[str, Any]:
        """Shape and dtype of a position: one vector, as the map may mix the sites."""
        layout = self.layout
        return {_NAME: jax.ShapeDtypeStruct((layout.size,), layout.dtype)}

    @property
    def mesh(self) -> Any:
        """Mesh of a `shard_map` in the density, or `None`."""
        return self.base.mesh

    @property
    def order(self) -> tuple[tuple[Any, bool], ...]:
        """Paths of the sites in the order of the model, and whether each is deterministic."""
        return self.base.order

    @property
    def labels(self) -> tuple[tuple[Any, Any], ...]:
        """Labels of sites."""
        return self.base.labels

    def forward(self, position: Any) -> tuple[Any, jax.Array]:
        """Position on unconstrained space, and the log determinant of the Jacobian."""
        flat, log_det = self.guide.forward(self.parameters, position[_NAME])
        return self.layout.unravel(flat), log_det

    def inverse(self, position: Any) -> dict[str, jax.Array]:
        """Standard coordinates of a position on unconstrained space."""
        return {_NAME: self.guide.inverse(self.parameters, self.layout.ravel(position))[0]}

    def log_density(self, position: Any) -> jax.Array:
        """Log density over standard coordinates, a scalar."""
        moved, log_det = self.forward(position)
        return self.base.log_density(moved) + log_det

    def log_det(self, position: Any) -> jax.Array:
        """Log density over standard coordinates minus that on unconstrained space, a scalar."""
        return self.forward(position)[1]

    def prior_and_likelihood(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """Log prior and log likelihood of the values of sites at a position."""
        return self.base.prior_and_likelihood(self.forward(position)[0])

    def split_log_density(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """Log density of the draws of `prior` over standard coordinates, and the log likelihood."""
        moved, log_det = self.forward(position)
        prior, rest = self.base.split_log_density(moved)
        return prior + log_det, rest

    def initial(self, key: jax.Array, values: Any = None) -> dict[str, jax.Array]:
        """Position of an initial position on unconstrained space."""
        return self.inverse(self.base.initial(key, values))

    def prior(self, key: jax.Array) -> dict[str, jax.Array]:
        """Position of a draw from the prior."""
        return self.inverse(self.base.prior(key))

    def constrain(self, position: Any) -> dict[str, Any]:
        """Values of sites at a position, on their supports."""
        return self.base.constrain(self.forward(position)[0])

    def sites(self, position: Any) -> dict[str, Any]:
        """Sites by name, each with its `value`, `distribution` and `log_prob`."""
        return self.base.sites(self.forward(position)[0])


def transport(target: Target, guide: Any, parameters: Any) -> TransportedTarget:
    """Target in the standard coordinates of a guide with parameters, in the target's dtype.

    Raises:
        ValueError: if the guide has no invertible map, or is of positions of another size.
    """
    if not (hasattr(guide, "forward") and hasattr(guide, "inverse")):
        raise ValueError(
            "transport=True needs a guide that maps standard normal numbers to positions and back: "
            "MeanField, FullRank, Structured, NeuralSpline, InverseAutoregressive, "
            "MaskedAutoregressive, or one of your own with forward and inverse; init is a fit of "
            f"{guide}"
        )
    layout = Layout.of(target.position_shapes)
    sampled = jax.eval_shape(
        lambda parameters: guide.sample(parameters, jax.random.key(0)), parameters
    )
    if sampled.shape != (layout.size,):
        raise ValueError(
            f"init is a fit to {sampled.size} unconstrained coordinates, and the model with its "
            f"data has {layout.size}: fit it anew"
        )

    def cast(x: Any) -> Any:
        x = jax.numpy.asarray(x)
        return x.astype(layout.dtype) if jax.numpy.issubdtype(x.dtype, jax.numpy.floating) else x

    return TransportedTarget(target, guide, jax.tree.map(cast, parameters))
