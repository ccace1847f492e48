"""mcmc: Markov chain Monte Carlo on a model."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
from jax.sharding import Mesh

from inference.drivers.check_inputs import check_inputs
from inference.drivers.init_from_result import Started
from inference.drivers.run_chains import run_chains
from inference.drivers.run_settings import NUM_CHAINS, NUM_WARMUP, RunSettings
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.monitoring.until import Until
from inference.results.mcmc_result import MCMCResult
from inference.runtime.progress import Shown


def mcmc(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    kernel: Kernel = NUTS(),
    num_warmup: int = NUM_WARMUP,
    num_draws: int | None = None,
    num_chains: int = NUM_CHAINS,
    mass_matrix: Literal["auto", "diagonal", "low_rank", "dense"]
    | Sequence[Sequence[str]] = "auto",
    target_acceptance_rate: float | None = None,
    init: Literal["uniform", "prior", "optimum"]
    | Mapping[str, Any]
    | Started
    | MCMCResult = "uniform",
    transport: bool = False,
    learn_centering: bool = True,
    mesh: Mesh | None = None,
    until: Until | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    keep: str | Sequence[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    **kwargs: Any,
) -> MCMCResult:
    """Markov chain Monte Carlo: draws from the posterior of `model`, by default with NUTS.

    Chains start where the log density and its gradient are finite. Warm-up adapts the step size by
    dual averaging, and the mass matrix to the spread of draws and gradients:

    - Each chain adapts on its own if there are fewer than 32, on an accelerator, or with a diagonal
      matrix. Its draws then do not depend on the number of chains, unless chains learn the
      centering of sites, which they do together.
    - Otherwise, chains pool their draws to learn one dense or low-rank matrix. A chain is left out,
      and learns by itself, if its mean log density is more than four standard deviations from the
      mean log density of the median chain.

    After about an eighth of warm-up, chains on the CPU are compared. A chain is lost if its log
    density is ten standard deviations below the others. It goes on from the state of another chain,
    and a warning says so.

    In a hierarchical model, the first half of warm-up learns from the draws and gradients of all
    chains whether each element of a site moves more easily centered, non-centered or in between;
    see `learn_centering`.

    On the CPU, chains use all cores; on an accelerator, they advance side by side. A second call
    compiles nothing if it has another key, other numbers of iterations or new data of the same
    shapes. A number that the model reads from a global or a closure, not from its arguments, is
    part of the compiled program: a change of it compiles the model anew. An interrupt (Ctrl-C)
    after warm-up returns the draws so far, with a warning.

    Args:
        key: Typed or legacy key; with the other arguments it determines every draw.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        kernel: Transition kernel, without a log density. With :class:`NUTS`, :class:`WALNUTS` (for
            curvature that varies), :class:`HMC`, :class:`MALA` and :class:`Barker`, warm-up begins
            with their step size and inverse mass matrix. :class:`Slice` and :class:`RandomWalk` are
            for densities without a gradient, :class:`EllipticalSlice` for latent sites that are
            jointly normal a priori. :class:`DifferentialEvolution` and :class:`AffineInvariant`
            need no gradient, but more than twice as many chains as coordinates. :class:`SGLD` and
            :class:`SGHMC` read some rows of large data at a time; their draws are biased, and those
            of :class:`SubsampledHMC` are of a perturbed posterior.
            :class:`ChEES`,
            :class:`AdjustedMCLMC` and :class:`MEADS`, and any other :class:`EnsembleKernel`, move
            all chains in lockstep and adapt over them: they are for 64 to many thousand chains on
            an accelerator. :class:`Gibbs` moves blocks of sites, real and discrete, each by a
            kernel of its own, and shows its plan with the progress. :class:`PMMH` moves parameters
            and path of a state space model. :class:`ParallelTempering` of another kernel is for
            modes that are far apart. Any other :class:`Kernel` adapts as its
            own `adapt` says; without one, iterations of warm-up are run and discarded.
        num_warmup: Iterations of warm-up per chain, not kept; 0 samples with the kernel as it is.
        num_draws: Draws to keep per chain, by default 1000; with `until` the maximum number of
            draws, by default 100 000.
        num_chains: Number of chains.
        mass_matrix: Structure of the mass matrix that warm-up learns:

            - ``"dense"``: all correlations;
            - ``"low_rank"``: a diagonal, corrected in the ten directions in which its scale is
              furthest off;
            - ``"diagonal"``: no correlations;
            - a list of groups of sites, such as ``[("a", "b"), ("scope.c",)]``: all correlations
              within each group, and no others. The matrix is held as a dense one;
            - ``"auto"``: the kind of the kernel's own matrix, if it has one. Otherwise, on the CPU,
              dense for up to 100 unconstrained coordinates, low-rank for up to 2000 and diagonal
              for more; on an accelerator, diagonal.

        target_acceptance_rate: Mean acceptance rate that the step size is adapted to, between 0 and
            1; by default 0.8, of :class:`MALA` 0.574 and of :class:`Barker` 0.4. A rate nearer to 1
            means smaller steps, which are slower and safer. If many transitions of a chain fail
            although the mean is right, the curvature of the density varies, and the chain adapts to
            a higher rate (0.96 at most, for 0.8).
        init: Starting points of the chains:

            - ``"uniform"``: ten points are drawn in unconstrained space, each coordinate uniform on
              (-2, 2); the start is the point with the highest log density;
            - ``"prior"``: a draw from the prior;
            - ``"optimum"``: as ``"uniform"``, then a short climb by L-BFGS, for densities that are
              narrow or far away; it takes time to compile;
            - a dict of values by site, for all chains or with an axis over chains in front; the
              other sites are uniform. ``{"mu": draws["mu"][:, -1]}`` goes on from another run;
            - a result of :func:`pathfinder`, :func:`svi`, :func:`laplace`, :func:`importance`,
              :func:`svgd` or :func:`optimize` for the same model. Each chain starts at a different
              draw, chosen by weight; with :func:`optimize`, all chains start at the mode. If the
              covariance of the guide is known, it is the first inverse mass matrix, unless the
              kernel has one; a short warm-up is then enough;
            - a result of :func:`mcmc` for the same model and data, with ``num_warmup=0``: chains go
              on from the ends of its chains, in turn, with their step sizes, mass matrices and
              coordinates, by random numbers of the new key. A key that has moved these chains
              before is refused.

            With an :class:`EnsembleKernel` and 32 chains or more, a name gives up to 16 starts,
            except for kernels without gradients, each of whose chains has a start of its own.
            Consecutive chains share a start, so that the summary can compare these superchains by
            :func:`nested_rhat`. With ``"uniform"``, a climb follows that ends among the bulk of the
            draws: all chains share a step size, and a single far start would make it small.

        transport: Whether chains move in the standard coordinates of the guide of `init`, a result
            of :func:`svi`. The guide maps standard normal numbers to unconstrained space; where it
            fits the posterior well, chains see nearly a standard normal density, without the
            funnels and bends of the posterior. Draws are values of the model's sites as always, and
            exact for any fit: a poor fit makes chains slow. Chains start at draws of the guide, and
            step sizes and mass matrices belong to the standard coordinates. The guides with such a
            map are the flows :class:`NeuralSpline`, :class:`InverseAutoregressive` and
            :class:`MaskedAutoregressive`, :class:`FullRank`, :class:`MeanField`,
            :class:`Structured`, and one of your own with `forward` and `inverse` (:class:`Guide`).
        learn_centering: Whether warm-up learns the centering of sites, a weight for each element
            (``ppl.LearnedCentering``, which names the families), as ``result.centering`` has it.
            Draws are values of the sites as always. Sites with that strategy learn weights, and,
            under :class:`NUTS`, :class:`WALNUTS` and :class:`HMC` without a mass matrix of their
            own, sites without a strategy that depend on other latent sites, if they are ten or
            less: an array, a loop of JAX or a ``vmap`` is one site, while each site of a loop in
            Python takes time to compile. A warm-up of less than 100 iterations learns nothing, and
            so does a kernel without gradients. A covariance that `init` knows is not used where
            weights are learned, as it belongs to other coordinates. With False, coordinates are
            those of the model, and a mass matrix of the result is for these.
        mesh: Devices over which chains are spread evenly. They may belong to several processes that
            have called ``jax.distributed.initialize``: every process then calls `mcmc` with the
            same arguments, and gets all draws. If one of them ends, the others do, too; give
            ``jax.distributed.initialize`` a `heartbeat_timeout_seconds` and a
            `shutdown_timeout_seconds` of 30, so that they do in time. By default all accelerators
            of this process, or all cores of the CPU, or only ``jax.default_device`` if it is set.
            Data on other devices are copied, unless they are split over a mesh: they stay where
            they are, its devices along these axes work together on each chain, and chains are
            spread over its other axes. `mesh` is then that mesh, or left out. Leave it out for a
            model with a ``shard_map``: the devices of the ``shard_map`` work together on each
            chain.
        until: Precision at which the run ends, see :class:`Until`: errors of means, ESS, R-hat, or
            a limit of time. The summary says why the run ended.
        cache_dir: A directory for compiled programs, so that the next process need not compile for
            the same model and shapes of data.
        progress: Whether to show a bar; by default in a terminal and in a notebook. In a log file
            it is a line every ten seconds. :class:`Live` shows ESS, R-hat and the time left, too. A
            function gets a :class:`ProgressReport` ten times a second, and an error in it ends the
            run as an interrupt does. If data are split over several processes, an interrupt and
            such an error are raised, and no draws are returned.
        keep: Names of the sites whose draws are kept, also of scopes and deterministic sites, such
            as ``["mu", "scope"]``; by default all. Values that only other sites need are not
            computed.
        checkpoint: A folder for draws and states of the chains. The same call goes on after a kill,
            an interrupt or an error, from a state that is at most about 15 seconds old (from the
            beginning, while coordinates are learned), and its draws have the bits of an undisturbed
            run. Draws are arrays that are mapped into memory,
            so that they may be larger than the memory. Of several processes, each has a folder
            within, ``process-0`` and so on, and the same call goes on in as many. See
            :func:`resume` for more draws.
        **kwargs: More arguments of the model.

    Returns:
        The draws, with statistics and a summary.

    Raises:
        TypeError: if an argument has the wrong type.
        OSError: if `checkpoint` cannot be written.
        RuntimeError: if another process fails or ends.
        ValueError: if `checkpoint` has another run, is damaged or in use, if a name to keep is
            unknown, if a value is out of range, if `init` is a result of another model, if its
            guide cannot transport chains, or if no starting point of finite density is found. The
            message names the sites that are not finite there.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu, 4.0), name="y")
        >>> posterior = ppl.condition(model, {"y": 5.0})
        >>> result = mcmc(jax.random.key(0), posterior)
        >>> result.draws["mu"].shape
        (4, 1000)
        >>> bool(abs(result.summary()["mu"].mean - 1.8) < 0.2)  # exactly 5 * 9 / (9 + 16)
        True

    References:
        Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15; Seyboldt, Carlson and Carpenter
        (2026), Preconditioning Hamiltonian Monte Carlo by minimizing Fisher divergence; Hoffman et
        al. (2019), NeuTra-lizing bad geometry in Hamiltonian Monte Carlo using neural transport, on
        `transport`; Stan Development Team, Stan Reference Manual, MCMC sampling.
    """
    check_inputs(mcmc, key, model, args, kwargs)
    run_settings = RunSettings(
        key,
        kernel,
        num_warmup,
        num_draws,
        num_chains,
        mass_matrix,
        target_acceptance_rate,
        init,
        keep,
        has_until=until is not None,
        transport=transport,
        learn_centering=learn_centering,
    )
    return run_chains(
        run_settings,
        model,
        args,
        kwargs,
        mesh=mesh,
        until=until,
        cache_dir=cache_dir,
        progress=progress,
        checkpoint=checkpoint,
    )
