"""Facts of a run, by which a summary of chains chooses its advice."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class RunFacts:
    """Facts of a run that choose the advice of its summary; defaults where they are unknown.

    Attributes:
        num_warmup: Iterations of warm-up.
        target_acceptance_rate: Acceptance rate that the step size was adapted to; `None` if nothing
            was adapted.
        init: Name of the way to start; `None` for given starts.
        num_coordinates: Coordinates of unconstrained space.
        noncentering: Whether ``ppl.auto_reparam`` would change sites:

            - ``"possible"``: it would;
            - ``"done"``: it would not, as some sites are reparameterized already;
            - ``"learned"``: the same, in coordinates that warm-up has learned;
            - ``"impossible"``: it would not, and no site is reparameterized;
            - `None`: unknown, as the model cannot be traced, or as there was no need to check:
              nothing diverged, and E-BFMI and ESS are high.

        nan: Words for a point near the draws where the log density is NaN, if one was found after
            divergences.
        approximate: Names of the sites that ``ppl.Laplace`` has taken out of the model, Pareto k of
            the weights of `ppl.recover`, and the number of draws that Pareto k was computed from.
        num_inner_modes: Number of modes of these sites given one draw of all others: 2 if climbs
            have found another than that of Laplace's approximation, 0 if none have ended, and
            `None` if there are no such sites, or no search for others was made.
        ended: Words on why the run ended, with `until` and after an interrupt.
        is_unmet: Whether the run ended before the conditions of `until` held.
        is_ensemble: Whether chains adapted together.
        num_chains: Number of chains of an ensemble.
        num_superchains: Number of groups of consecutive chains that share a start; with groups,
            R-hat in the summary is :func:`nested_rhat`.
        transport: Name of the guide in whose standard coordinates the chains moved; `None` if they
            moved on unconstrained space.
        num_ordered: Number of components of a mixture that :func:`relabel` has put in one order;
            `None` without it.
        mass_matrix: Kind of the mass matrix; `None` for a kernel that warm-up does not adapt. The
            summary reads it off the result.
        kernel: Name of the kernel, which chooses the advice on slow blocks of Gibbs sampling, and
            on divergences of parallel tempering.
        seconds: Wall time of the call, with compilation.
        device: Kind of the device.

    The last two choose nothing. Facts that differ in the last three are equal.
    """

    num_warmup: int | None = None
    target_acceptance_rate: float | None = None
    init: str | None = None
    num_coordinates: int | None = None
    noncentering: str | None = None
    nan: str | None = None
    approximate: tuple[Sequence[str], float, int] | None = None
    num_inner_modes: int | None = None
    ended: str = ""
    is_unmet: bool = False
    is_ensemble: bool = False
    num_chains: int | None = None
    num_superchains: int | None = None
    transport: str | None = None
    num_ordered: int | None = None
    mass_matrix: str | None = None
    kernel: str | None = dataclasses.field(default=None, compare=False)
    seconds: float | None = dataclasses.field(default=None, compare=False)
    device: str | None = dataclasses.field(default=None, compare=False)
