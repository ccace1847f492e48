"""Starts of sequential Monte Carlo: paths through rows, draws from the prior or of a result."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ppl
from inference.common.argument_checks import check_count, short_repr
from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from inference.common.target import Target
from inference.drivers.init_from_result import check_sites_of, positions_of
from inference.drivers.proper_priors import check_proper_priors
from inference.initialization.not_finite import not_finite
from inference.models.row_path import RowPath
from inference.models.row_split import RowSplit, split_rows
from inference.models.same_model import in_coordinates_of, latent_draws
from inference.results.mcmc_result import MCMCResult
from inference.results.psis import largest_pareto_k, psis_on_host
from inference.results.smc_result import SMCResult
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import put_on_common_devices
from inference.sequential.moves import Mover, Particles, draw_reference, split_particles
from inference.sequential.path_weights import Place, log_weights
from inference.sequential.paths import LikelihoodPath, ModelsPath
from inference.sequential.tempering import Population, seed_at
from ppl.harvest.plants import PathDict
from ppl.harvest.survey import Path, describe

_NUM_BATCHES = 64  # of rows, by default
_NUM_CHECKED = 8  # particles whose log densities are compared
_RIVAL = 2.0  # times the least misfit, for a number of rows that fits as well
_NOTHING = 0.01  # nats, of rows that say nothing
_WHO = 'smc with path="data"'
_REMEDY = 'Use path="likelihood", which reads all data at each temperature'


class Rows(NamedTuple):
    """Data of a model without its rows, and the rows."""

    data: RowSplit
    rows: list[Any]

    @classmethod
    def of(cls, target: Any) -> "Rows":
        """Rows of the data of a target.

        Raises:
            ValueError: if there are none, or a model of one row has other latent sites.
        """
        return cls(*split_rows(target, 1, 1, _WHO, _REMEDY))

    def path(self, num_first: int, batch_size: int | None) -> RowPath:
        """Path on which the first rows come together, and then batches.

        Raises:
            TypeError: if `batch_size` is not an integer.
            ValueError: if it is larger than the number of rows.
        """
        number = self.data.num_rows - num_first
        size = -(-number // _NUM_BATCHES)
        if batch_size is not None:
            size = check_count("batch_size", batch_size, least=1, most=number)
        return RowPath(self.data, self.rows, num_first, size)


def draw_prior(mover: Mover, target: Target, seed: np.ndarray, number: int) -> Population:
    """Population of draws from the prior.

    Raises:
        NotImplementedError: if the prior cannot be drawn.
        ValueError: if the likelihood is not finite anywhere.
    """
    numbers = np.arange(number)
    arguments = mover, target, seed_at(seed, 0), numbers.astype(np.uint32)
    try:
        program = compile_once(draw_reference, *arguments)
    except NotImplementedError as error:  # some distributions say so where they are drawn
        raise no_prior(error) from error
    particles = jax.device_get(program(*arguments))
    if not np.isfinite(particles.terms).all(1).any():
        found = not_finite(target, mover.layout, particles.positions[0], np.nan, None)
        raise ValueError(
            f"smc: the log likelihood is not finite at any of {number} draws from the prior. At "
            f"the first one, {'; '.join(found)}. Check that the prior allows the data, that these "
            "hold no NaN, and that parameters stay in their domain; or raise num_particles."
        )
    if isinstance(mover.path, RowPath):
        check_rows(mover, target, particles, is_prior=True)
    return Population(particles, Place(0, 0.0), [numbers], numbers)


def check_prior(target: Target) -> None:
    """Checks that the prior can be drawn, and scored apart from data.

    Raises:
        NotImplementedError: if it cannot.
    """
    try:
        jax.eval_shape(target.prior, jax.eval_shape(lambda: jax.random.key(0)))
        jax.eval_shape(target.split_log_density, target.position_shapes)
    except (NotImplementedError, ValueError) as error:
        raise no_prior(error) from error


def no_prior(error: Exception) -> NotImplementedError:
    """Error for a model whose prior cannot be drawn, or scored apart."""
    reason = str(error).split(". ")[0]
    return NotImplementedError(
        f"smc starts with draws from the prior, and {reason}. Use mcmc, which needs none: "
        "kernel=inference.ParallelTempering(reference=...) gives an evidence, too."
    )


class Start(NamedTuple):
    """Draws of a result at which particles start.

    Attributes:
        target: Target in the coordinates of the result.
        positions: Flat positions, ``(particle, size)``.
        log_densities: Log densities that the result has of them.
        num_chains: Number of chains of equal lengths that they consist of; 0 if it is not known.
    """

    target: Any
    positions: np.ndarray
    log_densities: np.ndarray
    num_chains: int = 0

    @classmethod
    def of(cls, result: Any, target: Any, number: int) -> "Start":
        """As many draws of a result, evenly spaced.

        Raises:
            TypeError: if it is not a result of `smc` or `mcmc`.
            ValueError: if it is of another model.
        """
        if not isinstance(result, MCMCResult | SMCResult) or "log_density" not in result.stats:
            raise TypeError(
                "init must be a result of smc or mcmc with a log density among its stats, of the "
                f"first rows of the data, got {short_repr(result)}"
            )
        target = in_coordinates_of(result, target)
        layout = Layout.of(target.position_shapes)
        log_densities = np.ravel(result.stats["log_density"])
        chosen = np.int64((np.arange(number) + 0.5) * log_densities.size / number)
        draws = jax.tree.map(
            lambda x: np.reshape(x, (-1, *np.shape(x)[2:]))[chosen], dict(result.draws)
        )
        check_sites_of(draws, target, type(result).__name__, 1)
        values = latent_draws(target.position_shapes, draws)
        positions = positions_of(values, target, layout).astype(layout.dtype)
        num_chains = result.num_chains if isinstance(result, SMCResult) else 0
        is_cut = num_chains > 0 and number % num_chains > 0
        return cls(target, positions, log_densities[chosen], 0 if is_cut else num_chains)

    def num_rows(self, rows: Rows, layout: Layout) -> int:
        """Number of the first rows that the result has seen, by its log densities.

        Rows that say nothing at the draws count as new, which changes nothing.

        Raises:
            ValueError: if it is of other data, of all rows, or of a number that cannot be told.
        """
        is_finite = np.flatnonzero(np.isfinite(self.log_densities))
        if not is_finite.size:
            raise ValueError(
                "init must be a result with finite log densities, which tell what rows it has seen:"
                f" it has none among {len(self.log_densities)} draws. Start anew, without init"
            )
        some = is_finite[np.linspace(0, len(is_finite) - 1, _NUM_CHECKED, dtype=int)]
        mover = Mover(None, rows.path(0, 1), layout, 1, _NUM_CHECKED)
        arguments = mover, self.positions[some]
        found = jax.device_get(compile_once(split_particles, *arguments)(*arguments))
        eps = np.finfo(layout.dtype).eps
        worst, growth = _misfits(found, self.log_densities[some])
        if not worst.min() <= np.sqrt(eps):  # Gibbs sampling has the log density of values
            arguments = rows.data, layout, self.positions[some]
            volumes = jax.device_get(compile_once(_log_volumes, *arguments)(*arguments))
            worst, growth = _misfits(found, self.log_densities[some] + volumes)
        number = int(np.argmin(worst))
        total = rows.data.num_rows
        if not worst[number] <= np.sqrt(eps):
            raise ValueError(
                "init must be a result for this model and the first rows of these data: its log "
                f"densities are not those of the first rows, for no number of rows up to {total}. "
                "Give the old rows first, in their order, and the new ones behind; nothing else "
                "may change. Or start anew, without init"
            )
        rivals = np.flatnonzero(worst <= max(_RIVAL * worst[number], 4 * eps))
        number = int(rivals[0])
        if growth[rivals[-1]] - growth[number] > _NOTHING:
            raise ValueError(
                f"init is a result of {number} to {rivals[-1]} of {total} rows: its log densities "
                "are rounded too coarsely to tell how many. Set jax_enable_x64 for both runs, or "
                "start anew, without init"
            )
        if number == total:
            raise ValueError(
                f"init is a result of all {total} rows of these data: there are no new ones. Give "
                "the old rows first, and the new ones behind"
            )
        return number

    def population(self, mover: Mover) -> tuple[Population, str]:
        """Population of these draws, and in words how well they carry all data.

        Raises:
            ValueError: if the likelihood of the model is not a sum over rows, or the draws are not
                of the first model of a path.
        """
        arguments = mover, self.positions
        particles = jax.device_get(compile_once(split_particles, *arguments)(*arguments))
        path: Any = mover.path
        if isinstance(path, ModelsPath):
            self._check_first(mover, particles)
            place = Place(1, 0.0)
        else:
            check_rows(mover, self.target, particles, is_prior=False)
            place = Place(int(path.num_first > 0), 0.0)
        found = log_weights(particles.terms, place, Place(particles.terms.shape[1], 0.0))
        number = len(found)
        blocks = np.arange(self.num_chains or number // mover.chain_length)
        population = Population(particles, place, [blocks], np.arange(number))
        if isinstance(path, ModelsPath):
            return population, _carried(found, self.positions, "the last model")
        num_new = path.data.num_rows - path.num_first
        return population, _carried(
            found, self.positions, f"{num_new} new row{'s' * (num_new != 1)}"
        )

    def _check_first(self, mover: Mover, particles: Particles) -> None:
        """Checks by log densities that the draws are of the first model of a path.

        Raises:
            ValueError: if they are not.
        """
        sums = particles.reference + particles.terms[:, 0]
        gaps = np.abs(sums - self.log_densities)
        extent = 1 + np.abs(particles.reference) + np.abs(particles.terms[:, 0])
        if np.all(gaps <= np.sqrt(np.finfo(mover.layout.dtype).eps) * extent):
            return
        at = int(np.nanargmax(np.append(gaps / extent, 0)))
        raise ValueError(
            "init must be a result for the first model of path, with its arguments and data: at a "
            f"draw, the log density of that model is {sums[at]:.6g}, and in the result "
            f"{self.log_densities[at]:.6g}. Or start anew, without init"
        )


def _log_volumes(data: RowSplit, layout: Layout, positions: jax.Array) -> jax.Array:
    """Log determinants of the map to values at positions, ``(particle,)``."""
    target = data.target(data.first)

    def volume(x: jax.Array) -> jax.Array:
        position = layout.unravel(x)
        return data.log_prior(position) - target.prior_and_likelihood(position)[0]

    return jax.vmap(volume)(positions)


def _misfits(found: Particles, log_densities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Largest relative gaps of log densities to those of each number of first rows, from 0 on.

    Also the largest sums of the absolute terms of these rows. Rows that are impossible at a draw
    fit it not, and leave the numbers before them as they are.
    """
    terms = np.asarray(found.terms, np.float64)
    terms = np.concatenate([np.zeros((len(terms), 1)), terms], 1)
    reference = np.asarray(found.reference, np.float64)[:, None]
    growth = np.cumsum(np.abs(terms), 1)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(reference + np.cumsum(terms, 1) - log_densities[:, None])
        relative = gaps / (1 + np.abs(reference) + growth)
    worst = np.where(np.isfinite(growth), relative, np.inf).max(0)
    return np.nan_to_num(worst, nan=np.inf), growth.max(0)


def _carried(found: np.ndarray, positions: np.ndarray, what: str) -> str:
    """Worth of old draws for something new, in words; a draw with copies counts once, by all."""
    _, first, counts = np.unique(positions, axis=0, return_index=True, return_counts=True)
    found = found[first] + np.log(counts)
    if found.max() == -np.inf:  # the next weights say so
        return ""
    pareto_k = float(psis_on_host(found).pareto_k)
    weights = np.exp(found - found.max())
    ess = weights.sum() ** 2 / (weights**2).sum()
    words = (
        f"for {what}, the {len(found)} distinct old draws were worth {ess:.0f} (Pareto k "
        f"{pareto_k:.2f})"
    )
    if pareto_k > largest_pareto_k(len(found)):
        words += ", too few to carry them by weights: moves have brought new ones"
    return words


def check_rows(mover: Mover, target: Target, particles: Particles, *, is_prior: bool) -> None:
    """Checks that each site's log density is the prior's in each batch, or a sum over rows.

    Each is compared by its own magnitude: a large likelihood hides no small site. Large likelihoods
    hide their own parts at draws from the prior, so that the last particles are checked, too.

    Raises:
        ValueError: if it is not.
    """
    sums = particles.reference + particles.terms.sum(1)
    some = np.flatnonzero(np.isfinite(sums))[:_NUM_CHECKED]
    if not some.size:  # the next weights say so
        return
    arguments = mover, target, particles.positions[some]
    sites = jax.device_get(compile_once(_sites_by_rows, *arguments)(*arguments))
    tolerance = np.sqrt(np.finfo(mover.layout.dtype).eps)
    for path, (whole, found, extent) in sites.items():
        is_equal = np.abs(found - whole) <= tolerance * extent
        if not is_equal.all():
            at = int(np.argmin(is_equal))
            what = f"log density of site {describe(path)} is"
            raise _no_rows(what, whole[at], "by batches of rows", found[at])
    if is_prior:
        latent = [whole for path, (whole, *_) in sites.items() if path in _latent_paths(target)]
        priors = jax.device_get(compile_once(_log_priors, *arguments)(*arguments))
        reference = particles.reference[some]
        is_equal = np.abs(reference - priors) <= tolerance * (1 + np.abs(latent).sum(0))
        if not is_equal.all():
            at = int(np.argmin(is_equal))
            what = "log density of the draws of the prior is"
            raise _no_rows(what, priors[at], "by a batch of rows", reference[at])


def _no_rows(what: str, whole: float, how: str, found: float) -> ValueError:
    return ValueError(
        f"{_WHO} cannot split the data of the model into rows: at a particle, the {what} "
        f"{whole:.6g}, and {how} {found:.6g}. Rows that depend on each other given the latent "
        "sites, as a time series or a Gaussian process, a factor, a datum that is no row, scaled "
        "sites, and sites whose arrays have other numbers of rows, are in the way. "
        f"{_REMEDY}."
    )


def _latent_paths(target: Any) -> dict[Path, Any]:
    return dict(target.shapes)


def _sites_by_rows(mover: Mover, target: Any, positions: jax.Array) -> PathDict:
    """Log density of each site, the same by batches of rows, and its extent, ``(particle,)``."""
    path: Any = mover.path
    latent = _latent_paths(target)

    def compare(x: jax.Array) -> PathDict:
        position = mover.layout.unravel(x)
        wholes = target.log_densities(position)
        terms = path.log_densities(position)
        return PathDict({p: by_rows(wholes[p], terms[p], p in latent) for p in wholes})

    def by_rows(whole: jax.Array, terms: jax.Array, is_latent: bool) -> tuple[jax.Array, ...]:
        if is_latent:
            return whole, terms[jnp.argmax(jnp.abs(terms - whole))], 1 + jnp.abs(whole)
        return whole, jnp.sum(terms), 1 + jnp.sum(jnp.abs(terms))

    return jax.vmap(compare)(positions)


def _log_priors(mover: Mover, target: Target, positions: jax.Array) -> jax.Array:
    """Log densities of the draws of the prior."""
    return jax.vmap(lambda x: target.split_log_density(mover.layout.unravel(x))[0])(positions)


def begin(
    path: Any,
    init: Any,
    target: Any,
    asked: tuple[Any, Any, Any],
    num_particles: int,
    batch_size: int | None,
) -> tuple[Any, Any, Start | None]:
    """The target, the path to it, and the draws of a result at which it starts.

    Args:
        path: Argument of `smc`.
        init: Argument of `smc`.
        target: The model on unconstrained space.
        asked: The model, its positional arguments, and those by name.
        num_particles: Number of particles.
        batch_size: Argument of `smc`.

    Raises:
        TypeError: if `path` or `init` is of another kind.
        ValueError: if the prior is improper, there are no rows, models of a path have other latent
            sites, or `init` is of another model.
        NotImplementedError: if the prior cannot be drawn, or scored apart.
    """
    is_own = path not in ("likelihood", "data")
    if is_own or init is None:
        check_proper_priors("smc", *asked, target)
    if is_own:
        targets = _targets_on(path, target, *asked[1:])
        if init is None:
            check_prior(targets[0])
            return target, ModelsPath((*targets, target)), None
        start = Start.of(init, targets[0], num_particles)
        return target, ModelsPath((start.target, *targets[1:], target)), start
    if init is None:
        check_prior(target)
        if path == "data":
            return target, Rows.of(target).path(0, batch_size), None
        return target, LikelihoodPath(target), None
    start = Start.of(init, target, num_particles)
    rows = Rows.of(start.target)
    num_first = start.num_rows(rows, Layout.of(target.position_shapes))
    return start.target, rows.path(num_first, batch_size), start


def _targets_on(path: Any, target: Any, args: Any, kwargs: Any) -> list[Any]:
    """Models of a path of one's own on unconstrained space, without the target.

    Raises:
        TypeError: if these are no models.
        ValueError: if there are none, or their latent sites are others than those of the target.
    """
    models = [path] if callable(path) else path
    expected = 'path must be "likelihood", "data", a model, or a list of models'
    if isinstance(path, str) or (isinstance(models, list | tuple) and not models):
        raise ValueError(f"{expected}, got {short_repr(path)}")
    if not isinstance(models, list | tuple) or not all(map(callable, models)):
        raise TypeError(f"{expected}, got {short_repr(path)}")
    targets: list[Any] = [ppl.unconstrain(model, *args, **kwargs) for model in models]
    wanted = _shapes(target)
    for number, found in enumerate(map(_shapes, targets)):
        if found != wanted:
            raise ValueError(
                f"path: model {number} has the latent sites {_in_words(found)}, and the model that "
                f"path goes to {_in_words(wanted)}. Particles keep their coordinates on the way: "
                "give models with the same latent sites, in as many unconstrained coordinates. A "
                "site that one model lacks can be drawn in it all the same, from a prior"
            )
    return [put_on_common_devices(x) for x in targets]


def _shapes(target: Any) -> dict[str, tuple[int, ...]]:
    return {name: x.shape for name, x in named_leaves(target.position_shapes)}


def _in_words(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name!r} {shape}" for name, shape in shapes.items()) or "(none)"
