"""impute and ignore: missing data, inferred as latent values or integrated out."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import distribution_protocol
from ppl.common.column_names import names_of_data
from ppl.common.columns import Names, numbers_of
from ppl.common.row_order import RowOrders
from ppl.harvest import jax_core, leaf_values
from ppl.harvest.pytrees import is_split, register_dataclass
from ppl.harvest.sowing import Site

# Names of the axes of data, and pairs of a dimension and the names of its entries.
DataNames = tuple[tuple[str | None, ...], tuple[tuple[str, Names], ...]]


@dataclasses.dataclass(frozen=True)
class Gaps:
    """Static part of data with missing entries; which entries they are is data.

    Attributes:
        num_missing: The number of missing entries.
        size: The number of all entries.
    """

    num_missing: int
    size: int

    def num_missing_in(self, shape: tuple[int, ...]) -> int:
        """The number of missing entries of a site of a shape.

        A site has more entries than the data, if `vmap` or a loop is around a conditioned model.
        The same entries are then missing in all copies.
        """
        return self.num_missing * math.prod(shape) // self.size


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Missing:
    """Data with missing entries, for `condition`; made by `impute` or `ignore`.

    Attributes:
        data: The data, arbitrary at missing entries.
        missing: Boolean array, True at missing entries.
        gaps: The number of missing entries for `impute`, None for `ignore`.
        not_counts: Why the known entries cannot be cast to integers; empty if they can be.
        names: Names of the axes of the data, and of the entries along each of these dimensions.
        row_orders: The index of the data, if they are a series.
    """

    data: Any
    missing: Any
    gaps: Gaps | None = dataclasses.field(metadata={"static": True})
    not_counts: str = dataclasses.field(metadata={"static": True})
    names: DataNames = dataclasses.field(default=((), ()), metadata={"static": True})
    row_orders: RowOrders = dataclasses.field(
        default=RowOrders(), repr=False, metadata={"static": True}
    )


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Ignored(distribution_protocol.DistributionWrapper):
    """A distribution that leaves missing entries out of its log probability."""

    base: Any
    missing: Any

    def log_prob(self, value: Any) -> jax.Array:
        """The log probability of the known entries; a missing event counts 0."""
        safe = jnp.where(
            self.missing, distribution_protocol.feasible_point(self.base, value), value
        )
        return _log_prob_of_known(self.base, safe, self.missing)

    def is_possible(self, value: Any) -> jax.Array:
        """Whether each event has its known entries in the support."""
        feasible = distribution_protocol.feasible_point(self.base, value)
        return super().is_possible(jnp.where(self.missing, feasible, value))

    def log_prob_by_part(self, value: Any) -> jax.Array:
        """The log probability of each part, 0 where it is missing; of whole events of vectors."""
        if distribution_protocol.num_event_axes(distribution_protocol.part_of(self.base)):
            return self.log_prob(value)
        safe = jnp.where(
            self.missing, distribution_protocol.feasible_point(self.base, value), value
        )
        return jnp.where(self.missing, 0, distribution_protocol.log_prob_by_part(self.base, safe))


def _log_prob_of_known(d: Any, value: jax.Array, missing: jax.Array) -> jax.Array:
    """The log probability of the known entries; NaN for a joint event missing in part."""
    num_events = distribution_protocol.num_event_axes(d)
    if distribution_protocol.name_of(d) not in distribution_protocol.FAMILIES_OF_PARTS:
        axes = tuple(range(missing.ndim - num_events, missing.ndim))
        known = distribution_protocol.log_prob(d, value)
        if axes:
            known = jnp.where(missing.any(axes), jnp.nan, known)
        return jnp.where(missing.all(axes), 0, known)
    num_inner = distribution_protocol.num_event_axes(d.distribution)
    axes = tuple(range(num_inner - num_events, 0))
    # The axes of the copies of IID come after the axes of the batch.
    if distribution_protocol.name_of(d) == "IID":
        own = tuple(range(value.ndim - num_events, value.ndim - num_inner))
        axes = tuple(range(len(own)))
        value, missing = (jnp.moveaxis(x, own, axes) for x in (value, missing))
    return jnp.sum(_log_prob_of_known(d.distribution, value, missing), axes)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Imputed(distribution_protocol.DistributionWrapper):
    """A distribution with some entries known; only positions of the missing entries count.

    Positions of known entries may be NaN.
    """

    base: Any
    data: Any
    missing: Any
    gaps: Gaps = dataclasses.field(metadata={"static": True})

    def merge_known(self, value: Any) -> Any:
        """The value with its known entries set to the data."""
        return jnp.where(self.missing, value, jnp.asarray(self.data, value.dtype))

    def is_possible(self, value: Any) -> jax.Array:
        """Whether each event lies in the support, with its known entries set to the data."""
        return super().is_possible(self.merge_known(value))

    def log_prob(self, value: Any) -> jax.Array:
        """The log probability of known and missing entries together."""
        return distribution_protocol.log_prob(self.base, self.merge_known(value))

    def forward(self, position: Any) -> Any:
        """The value at a position."""
        return self.merge_known(distribution_protocol.forward(self.base, self._fill(position)))

    def inverse(self, value: Any) -> Any:
        """The position of a value, entry by entry."""
        position = distribution_protocol.inverse(self.base, value)
        num_events = distribution_protocol.num_event_axes(self.base)
        is_elementwise = not num_events or distribution_protocol.is_real(self.base)
        if position.shape != value.shape or not is_elementwise:
            raise NotImplementedError("impute is for numbers, and for vectors of real numbers.")
        return position

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        """The value at a position, and its log density; known entries have no log determinant."""
        value, volume, score = self.constrain_apart(position)
        return value, volume + distribution_protocol.sum_all(score)

    def constrain_apart(self, position: Any) -> tuple[Any, jax.Array, jax.Array]:
        """The value, the log determinant of missing entries, and the log probability.

        Missing entries are scored at their position, known ones at the data.
        """
        position = self._fill(position)
        drawn, _, score = distribution_protocol.constrain_apart(self.base, position)
        value = self.merge_known(drawn)
        if distribution_protocol.num_event_axes(self.base):  # then the map is the identity
            return value, jnp.zeros(()), self.log_prob(value)
        log_det = distribution_protocol.log_det(distribution_protocol.bijector(self.base), position)
        volume = distribution_protocol.sum_all(jnp.where(self.missing, log_det, 0))
        return value, volume, jnp.where(self.missing, score, self.log_prob(value))

    def _fill(self, position: Any) -> Any:
        """The position with zeros at known entries."""
        return jnp.where(self.missing, position, 0)


def impute(data: Any, missing: Any = None) -> Missing | jax.Array:
    """Data whose missing entries are unknown values, to be inferred, for `condition`.

    The site stays latent, with a coordinate for each missing entry, and without coordinates if no
    entry is missing. Its values, also in draws, are complete arrays that agree with the data at
    known entries. Later sites may depend on these values.

    Args:
        data: An array of floats, or a masked array of NumPy. For a site of integers, the floats
            must be whole numbers, as pandas makes them of counts with gaps.
        missing: Boolean array of the shape of `data`, True at missing entries; by default the
            entries that are NaN or masked. It must not be traced, as the number of missing entries
            decides shapes. Data with as many gaps at other places do not recompile.

    Returns:
        A value for `condition`: the data as they are, if they are integers without gaps. A series
        then stays a series, as `condition` compares its index with that of others.

    Raises:
        TypeError: If data or mask are not arrays of floats and booleans.
        ValueError: If the shapes differ, or the mask is traced.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist
        >>> def model(key):
        ...     return ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="y")
        >>> y = jnp.array([0.5, jnp.nan, -1.0])
        >>> target = ppl.unconstrain(ppl.condition(model, {"y": ppl.impute(y)}))
        >>> target.constrain({"y": jnp.array([7.0])})["y"].tolist()
        [0.5, 7.0, -1.0]

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), chapter 18.
    """
    given = data
    names = names_of_data(data)
    orders = RowOrders.of(data)
    data, missing = _check_data_and_mask("impute", data, missing)
    if jax_core.is_traced(missing):
        raise ValueError(
            "impute: the number of missing entries decides the shape of what is to be inferred, so "
            "it must be known when the program is traced. Give `missing` as a NumPy array, or call "
            "ppl.impute outside, and pass its result as an argument."
        )
    if not (np.any(missing) or jnp.issubdtype(data.dtype, jnp.floating)):
        return given if any(names[0]) or orders.indices else data  # the index goes along
    gaps = Gaps(int(np.sum(missing)), np.size(missing))
    why = _why_not_counts(data, missing)
    return Missing(data, jnp.asarray(missing), gaps, why, names, orders)


def ignore(data: Any, missing: Any = None) -> Missing:
    """Data whose missing entries are integrated out, for `condition`.

    Missing entries are left out of the density. This is exact if nothing else depends on the site.
    If a random site or a factor depends on any of its entries, no density can be derived.

    | distribution | may be missing |
    |---|---|
    | of scalars | any entry |
    | `dist.iid`, `dist.Independent` | any part |
    | of vectors with a joint distribution | whole vectors only |

    A vector that is missing in part is an error; if the mask is traced, its density is NaN.

    Args:
        data: An array, or a masked array of NumPy. For a site of integers, floats must be whole
            numbers.
        missing: Boolean array of the shape of `data`, True at missing entries; by default the
            entries that are NaN or masked. It may be traced, so that new data with other gaps do
            not recompile.

    Raises:
        TypeError: If data or mask are not arrays of numbers and booleans.
        ValueError: If the shapes differ.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist
        >>> def model(key):
        ...     return ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="y")
        >>> y = jnp.array([jnp.nan, 0.0])
        >>> round(ppl.log_density(ppl.condition(model, {"y": ppl.ignore(y)}))({}).item(), 4)
        -0.9189

    References:
        Rubin, "Inference and missing data", Biometrika 63 (1976).
    """
    names = names_of_data(data)
    orders = RowOrders.of(data)
    data, missing = _check_data_and_mask("ignore", data, missing)
    return Missing(data, missing, None, _why_not_counts(data, missing), names, orders)


def _why_not_counts(data: jax.Array, missing: Any) -> str:
    """Why the known entries are neither integers nor floats that a cast to integers keeps."""
    if not jnp.issubdtype(data.dtype, jnp.floating):
        return ""
    if jax_core.is_traced(data) or jax_core.is_traced(missing):
        return "whose known entries are traced, so that they may not be whole numbers"
    known = np.asarray(data)[~np.asarray(missing)]
    if np.any(known != np.round(known)):  # No entry is told: new data have to be alike.
        return "whose known entries are not whole numbers"
    limits = jnp.iinfo(jnp.result_type(int))
    if np.all(np.abs(known) < -float(limits.min)):
        return ""
    return f"whose known entries are out of the range of {limits.dtype}"


_OVER_PROCESSES = (
    "data of the shape {} are split over devices of several processes, none of which sees all "
    "entries that are missing. {}"
)
_REMEDIES = {
    "impute": "Give each process the whole, as a NumPy array, or use ppl.ignore.",
    "ignore": "Call ppl.ignore in the model, with the data as an argument of the model.",
}


def _check_data_and_mask(where: str, data: Any, missing: Any) -> tuple[jax.Array, Any]:
    masked: Any = False
    data = numbers_of(data)
    if getattr(getattr(data, "dtype", None), "kind", "") in ("O", "U", "S", "T"):
        raise TypeError(
            f"{where}: expected an array of numbers, got {type(data).__name__} of dtype "
            f"{data.dtype}. If they are numbers, give numpy.asarray(x, float), None as NaN. "
            "Categories go as codes: x.cat.codes with the mask x.isna()."
        )
    if isinstance(data, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(data)
        data = data.data
    given = data
    try:
        data = leaf_values.as_array(given)
        if missing is None and jax_core.is_traced(given):
            missing = jnp.isnan(data)
        elif is_split(given) and not given.is_fully_addressable:
            raise ValueError(_OVER_PROCESSES.format(given.shape, _REMEDIES[where]))
        elif missing is None:  # NumPy: stays concrete under a trace.
            missing = np.asarray(np.isnan(np.asarray(given)) | masked)
        missing = missing if isinstance(missing, np.ndarray) else leaf_values.as_array(missing)
    except TypeError as error:
        raise TypeError(f"{where}: expected an array and a boolean mask. {error}") from error
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if missing.dtype != bool:
        raise TypeError(f"{where}: expected a boolean mask, got the dtype {missing.dtype}.")
    if missing.shape != data.shape:
        raise ValueError(
            f"{where}: `missing` must have the shape of the data, {data.shape}, got "
            f"{missing.shape}. Give a boolean for each entry, by jnp.broadcast_to(missing, "
            "data.shape) if one stands for several, or leave it out where the data are NaN."
        )
    if not (jax_core.is_traced(data) or jax_core.is_traced(missing)):
        num_left = int(np.sum(np.isnan(data) & ~np.asarray(missing)))
        if num_left:
            raise ValueError(
                f"{where}: {num_left} of the data are NaN where `missing` is False. Say that they "
                "are missing, or leave `missing` out: entries that are NaN are missing by default."
            )
    return data, missing


def gaps_of(site: Site) -> Gaps | None:
    """The gaps of a site that `impute` observes in part, else None."""
    gaps = (metadata for kind, metadata in leaf_values.nodes(site.extra_tree) if kind is Imputed)
    return next((found for (found,) in gaps), None)


def missing_entries(d: Any) -> Any:
    """Mask of missing entries of a site with gaps, by `impute` or `ignore`, else None."""
    while isinstance(d, distribution_protocol.DistributionWrapper):
        if isinstance(d, Imputed | Ignored):
            return d.missing
        d = d.base
    return None


def is_imputed(site: Site) -> bool:
    """Whether `impute` observes a site in part, so that its missing entries are latent."""
    return gaps_of(site) is not None


def check_no_nan(where: str, what: str, values: Mapping[str, Any], remedy: str) -> None:
    """Check that no value is known to be NaN, as its meaning must be said explicitly."""

    def is_missing(x):
        return isinstance(x, Missing)

    for path, leaf in jax.tree_util.tree_leaves_with_path(dict(values), is_leaf=is_missing):
        num_missing = 0 if is_missing(leaf) else _count_nan(leaf)
        if num_missing:
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            raise ValueError(
                f"{where}: {num_missing} of the {np.size(leaf)} {what} of site {name!r} are "
                f"NaN{' or masked' * isinstance(leaf, np.ma.MaskedArray)}. {remedy}"
            )


def check_whole(where: str, d: Any, missing: Any) -> None:
    """Check that no event of a joint distribution is known to be missing in part."""
    d = distribution_protocol.part_of(d)
    if jax_core.is_traced(missing) or not (num_events := distribution_protocol.num_event_axes(d)):
        return
    flags = np.asarray(missing)
    axes = tuple(range(flags.ndim - num_events, flags.ndim))
    num_torn = int(np.sum(flags.any(axes) & ~flags.all(axes)))
    if num_torn:
        raise ValueError(
            f"{where}: {num_torn} of {flags.any(axes).size} draws of "
            f"{distribution_protocol.name_of(d)} are "
            "missing in part, but their entries have a joint distribution. Infer them with "
            "ppl.impute(data), sample the entries that are there from their own distribution, or "
            "mark all entries of such a draw as missing."
        )


def as_data_of(where: str, given: Missing, avals: Iterable[Any]) -> Any:
    """Data with gaps in the dtype of their site: whole floats are cast where it has integers.

    pandas makes floats of counts with gaps. Without gaps to infer, they are plain data.
    """
    wanted = [aval.dtype for aval in avals if jnp.issubdtype(aval.dtype, jnp.integer)]
    if not wanted or not jnp.issubdtype(given.data.dtype, jnp.floating):
        return given
    if given.not_counts:
        made = "ignore" if given.gaps is None else "impute"
        remedy = (
            "Give integers, and say which are missing: "
            f"ppl.{made}(jnp.where(missing, 0, data).astype({str(wanted[0])!r}), missing)."
        )
        if "out of the range" in given.not_counts:
            remedy = (
                "jax.config.update('jax_enable_x64', True) makes room for integers up to 9e18; or "
                "rescale them, and take a continuous family."
            )
        raise TypeError(
            f"{where}: expected {wanted[0]}, got {given.data.dtype}, {given.not_counts}. {remedy}"
        )
    data = jnp.where(given.missing, 0, given.data).astype(wanted[0])
    if given.gaps is not None and not given.gaps.num_missing:
        return data
    return dataclasses.replace(given, data=data)


def _count_nan(leaf: Any) -> int:
    """The number of entries that are known to be NaN, or masked."""
    if isinstance(leaf, np.ma.MaskedArray):
        return np.ma.count_masked(leaf) + _count_nan(leaf.compressed())
    if jax_core.is_traced(leaf) or not isinstance(
        leaf, jax.Array | np.ndarray | np.generic | float
    ):
        return 0
    if not jnp.issubdtype(getattr(leaf, "dtype", float), jnp.floating):
        return 0
    if is_split(leaf):
        return int(jnp.sum(jnp.isnan(jnp.asarray(leaf))))  # where the parts are
    return int(np.sum(np.isnan(leaf)))
