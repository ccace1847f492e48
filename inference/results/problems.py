"""Problems of a run of Markov chains, each with a remedy that the run has not had yet."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from inference.common.far_chains import find_lost
from inference.common.leaf_names import named_leaves
from inference.common.warm_up import MIN_ITERATIONS, WarmUp
from inference.results.diagnostics import MIN_DRAWS, ebfmi
from inference.results.label_switching import (
    as_many_entries,
    find_assignments,
    find_switching,
    names_in_words,
    remedy_of_switching,
    unequal_densities,
)
from inference.results.nested_rhat import HIGH_RHAT, nested_rhat_limit, rhat_limit
from inference.results.particles import particle_problems
from inference.results.run_facts import RunFacts
from inference.results.summary import Summary
from inference.results.summary_columns import print_rhat
from inference.results.tempering import tempering_problems

# Thresholds of warnings.
LOW_EBFMI = 0.3
LOW_ESS_PER_CHAIN = 100
LOW_ESS = 400  # of all chains together, if they are many
MANY_CHAINS = 16  # with so many chains each may be short: limits are then for all chains together
LOW_ACCEPTANCE = 0.1  # mean rate
LOW_STEP_SIZE = 0.2  # over the median chain's
FROZEN_STEP_SIZE = 1e-3  # over the median chain's
MAX_ESTIMATE_VARIANCE = 1.0  # of log likelihoods from batches
MAX_ROUNDING = 0.1  # nats; rounding of a log density to its dtype
_BELOW_TARGET = 0.15  # target less the mean acceptance rate
# A posterior seems to be improper if the largest draw exceeds _FAR and the smallest is less than
# _NEAR of it, both in absolute value.
_FAR = 1e17
_NEAR = 0.01
_OF_CHAINS = "R-hat and ESS need", "how the chains mix"
_MAX_LISTED = 8  # numbers that are listed in full
_NUM_LISTED = 3  # numbers listed of more
_HIGHER_TARGETS = (0.95, 0.99)
_MOST_DEPTH = 24  # that NUTS and WALNUTS take
_MOST_HALVINGS = 20  # that WALNUTS takes
_FLOWS = "NeuralSpline", "InverseAutoregressive", "MaskedAutoregressive"
_PRECISION = (
    'Run in double precision (jax.config.update("jax_enable_x64", True)); on an accelerator, '
    'leave jax_default_matmul_precision at its default or set it to "highest". '
)
_USUAL_WARMUP = 1000  # iterations
_NO_SINGLE_SCALE = (
    "; if that does not help, the scales of the posterior vary from place to place, and other "
    "coordinates or narrower priors may"
)
REPARAM = "ppl.reparam(model, ppl.auto_reparam)"
UNDO = (
    "The model is reparameterized already; try it without, too: with many data per group the "
    "centered form is better."
)


def find_problems(
    draws: dict[str, Any],
    stats: Mapping[str, np.ndarray],
    summary: Summary,
    facts: RunFacts,
    warmup: WarmUp | None = None,
) -> tuple[str, ...]:
    """Warnings about the chains of a run, each with a remedy.

    Args:
        draws: Draws by site, ``(chain, draw, *shape)``.
        stats: Statistics of the kernel, ``(chain, draw)``, by name. A warning that needs a
            statistic which the kernel does not have is left out.
        summary: Summary of the draws.
        facts: Facts of the run; unknown facts have their defaults.
        warmup: What warm-up did, if it is known.
    """
    return (
        *_range_problems(draws, stats, summary, facts),
        *_divergence_problems(stats, facts),
        *_truncation_problems(stats, facts),
        *_acceptance_problems(stats, facts),
        *_lost_chain_problems(stats, facts, len(summary)),
        *_step_size_problems(stats, facts),
        *_warm_up_problems(warmup, facts),
        *_rounding_problems(stats),
        *_energy_problems(stats, facts),
        *tempering_problems(stats),
        *particle_problems(stats),
        *_step_bias_problems(stats, facts),
        *_estimate_problems(stats),
        *_mixing_problems(draws, stats, summary, facts),
    )


def describe_checks(stats: Mapping[str, np.ndarray], summary: Summary, facts: RunFacts) -> str:
    """Line that lists the checks made, all without a finding.

    Some checks need statistics that not every kernel has.
    """
    checks = {
        "is_divergent": "no divergence",
        "energy": f"E-BFMI at least {LOW_EBFMI}",
    }
    found = [check for name, check in checks.items() if name in stats]
    high_rhat, _ = _limits(summary, facts)
    nested = "" if facts.num_superchains is None else "nested "
    found.append(f"{nested}R-hat at most {high_rhat:.3g}")
    each = "" if summary.num_chains >= MANY_CHAINS else " per chain"
    found.append(f"ESS at least {LOW_ESS_PER_CHAIN if each else LOW_ESS}{each}")
    return f"No problem found: {', '.join(found)}."


def may_need_reparam(stats: Mapping[str, np.ndarray]) -> bool:
    """Whether a transition diverged or an E-BFMI is low: reparameterization is a remedy of both."""
    if np.any(stats.get("is_divergent", 0)):
        return True
    return "energy" in stats and bool(np.any(ebfmi(stats["energy"]) < LOW_EBFMI))


def enough_draws(num_chains: int) -> int:
    """Least ESS of a run without a finding: 100 per chain, and 400 of many chains together."""
    return LOW_ESS if num_chains >= MANY_CHAINS else LOW_ESS_PER_CHAIN * num_chains


def _limits(summary: Summary, facts: RunFacts) -> tuple[float, int]:
    """Highest R-hat and lowest ESS of a run without a finding."""
    high_rhat = HIGH_RHAT
    if (superchains := facts.num_superchains) is not None:
        high_rhat = nested_rhat_limit(superchains, summary.num_chains, summary.num_draws)
    elif summary.num_chains >= MANY_CHAINS:
        high_rhat = rhat_limit(summary.num_chains, summary.num_draws)
    return high_rhat, enough_draws(summary.num_chains)


def _range_problems(
    draws: dict[str, Any],
    stats: Mapping[str, np.ndarray],
    summary: Summary,
    facts: RunFacts,
) -> Iterator[str]:
    """Warnings for sites whose draws reach very far, as under an improper posterior.

    Units may be large, so another sign of trouble is needed: a divergence, a truncated trajectory,
    low ESS or high R-hat.
    """
    ess = np.fmin(summary.ess_bulk, summary.ess_tail)
    high_rhat, enough = _limits(summary, facts)
    is_slow = (ess < enough) | (summary.rhat > high_rhat)
    is_wrong = np.any(stats.get("is_divergent", 0)) or np.any(stats.get("is_truncated", 0))
    if not (is_wrong or is_slow.any()):
        return
    for name, leaf in named_leaves(draws):
        if not np.issubdtype(leaf.dtype, np.floating):
            continue
        leaf = np.asarray(leaf)
        sizes = np.abs(leaf[np.isfinite(leaf)].astype(np.float64))
        farthest = float(np.max(sizes, initial=0.0))
        # A site that is large only because of its unit also has large smallest values.
        if farthest > _FAR and float(np.min(sizes)) < _NEAR * farthest:
            yield (
                f"draws of {name} reach {farthest:.0e}: the posterior seems to be improper, with a "
                "density that does not fall off in some direction. Give the sites behind it proper "
                "priors."
            )


def _divergence_problems(stats: Mapping[str, np.ndarray], facts: RunFacts) -> Iterator[str]:
    if not (num_divergent := int(np.sum(stats.get("is_divergent", 0)))):
        return
    if facts.nan:
        yield (
            f"{num_divergent} of {stats['is_divergent'].size} transitions diverged, and the log "
            f"density is NaN at points near the draws: {facts.nan}. Mend what is NaN, as a "
            "root of negative numbers; or give sites a support without values that are impossible."
        )
        return
    remedies = _fit_remedies(facts)
    if _may_reparam(facts):
        remedies.append(f"reparameterize hierarchical sites, as by {REPARAM}")
    remedies += [*_step_remedies(facts), *_kernel_remedies(stats, facts)]
    remedies.append("narrow priors that allow extremes")
    yield (
        f"{num_divergent} of {stats['is_divergent'].size} transitions diverged: the posterior "
        "curves more sharply somewhere than the step size can follow, and the draws are biased "
        f"away from there. {_either(remedies)}{_undo(facts)}"
    )


def _truncation_problems(stats: Mapping[str, np.ndarray], facts: RunFacts) -> Iterator[str]:
    is_truncated = np.asarray(stats.get("is_truncated", False))
    num_truncated = int(np.sum(is_truncated))
    if not num_truncated:
        return
    remedies = ["bring parameters to similar scales"]
    if not _is_adapted(facts):
        remedies.append("allow longer trajectories")
    else:
        if facts.num_warmup == 0:
            remedies.insert(0, "let warm-up learn the mass matrix (num_warmup=1000)")
        elif facts.mass_matrix != "dense":
            remedies.insert(0, "try mass_matrix='dense'")
        max_depth = int(np.max(stats["depth"][is_truncated])) if "depth" in stats else 10
        kernel = "WALNUTS" if "halvings" in stats else "NUTS"
        deeper = min(max_depth + 2, _MOST_DEPTH)
        remedies += [f"allow {kernel}(max_depth={deeper})"] * (deeper > max_depth)
    yield (
        f"{num_truncated} of {is_truncated.size} trajectories were cut short by max_depth, so that "
        f"chains move slowly. {_either(remedies)}"
    )


def _acceptance_problems(stats: Mapping[str, np.ndarray], facts: RunFacts) -> Iterator[str]:
    """Warnings for chains that accept hardly anything, or far less than their target."""
    # WALNUTS halves steps that are too large: its rate, of single steps, is a matter of cost only.
    if "acceptance_rate" not in stats or "halvings" in stats:
        return
    rates = np.mean(stats["acceptance_rate"], 1)
    stuck = np.flatnonzero(rates < LOW_ACCEPTANCE)
    if stuck.size:
        remedy = "Raise num_warmup" if _is_adapted(facts) else "Propose less far"
        yield (
            f"{_list_numbers('chain', stuck, rates.size)} hardly moved: fewer than "
            f"{LOW_ACCEPTANCE:.0%} of proposals were accepted. {remedy}, or start elsewhere: "
            f"{_other_starts(facts)}."
        )
    target = facts.target_acceptance_rate
    if target is None:
        return
    low = np.flatnonzero((rates >= LOW_ACCEPTANCE) & (rates < target - _BELOW_TARGET))
    if low.size:
        yield (
            f"{_list_numbers('chain', low, rates.size)} accepted fewer proposals than "
            f"intended: a mean acceptance rate of "
            f"{_list_some([f'{rate:.2f}' for rate in rates[low]])}, with "
            f"target_acceptance_rate={target:g}. The step size is too large for where the draws "
            f"are. {_either([*_step_remedies(facts), 'raise num_warmup'])}"
        )


def _lost_chain_problems(
    stats: Mapping[str, np.ndarray], facts: RunFacts, num_scalars: int
) -> Iterator[str]:
    """Warnings for chains whose mean log density is far below the others'."""
    if "log_density" not in stats:
        return
    with np.errstate(invalid="ignore"):  # the mean of inf and -inf
        means = np.asarray(stats["log_density"], np.float64).mean(1)
    if np.isnan(means).all():
        yield (
            "no chain found a start where the log density is finite: the draws are none of the "
            "posterior. Look at data and supports; mcmc with the same data says which site has no "
            "density."
        )
    is_lost = find_lost(means, facts.num_coordinates or num_scalars, least=0.0)
    lost = np.flatnonzero(is_lost)
    if lost.size:
        verb, whose, them = ("is", "its", "it") if lost.size == 1 else ("are", "their", "them")
        yield (
            f"{_list_numbers('chain', lost, means.size)} {verb} far from the others: mean log "
            f"density {_list_some([f'{x:.4g}' for x in means[lost]])}, others "
            f"{np.median(means[~is_lost]):.4g}; {whose} draws are not of the same region. Leave "
            f"{them} out by jax.tree.map(lambda x: np.delete(x, {lost.tolist()}, 0), result), or "
            f"start elsewhere: {_other_starts(facts)}."
        )


def _step_size_problems(stats: Mapping[str, np.ndarray], facts: RunFacts) -> Iterator[str]:
    if "step_size" not in stats:
        return
    step_size = np.median(stats["step_size"], 1)
    slow = np.flatnonzero(step_size < LOW_STEP_SIZE * np.median(step_size))
    if slow.size:
        is_adapted = _is_adapted(facts)
        is_frozen = bool(step_size.min() < FROZEN_STEP_SIZE * np.median(step_size))
        reasons = ["a narrow place"]
        reasons += ["one crossed late in warm-up"] * is_adapted
        reasons += ["where the log density is not precise enough for its changes"] * is_frozen
        yield (
            f"{_list_numbers('chain', slow, step_size.size)} took steps "
            f"{np.median(step_size) / step_size.min():.3g} times smaller than the others, as in "
            f"{', or '.join(reasons)}. "
            f"{_PRECISION * is_frozen}"
            f"{'Raise num_warmup, start' if is_adapted else 'Start'} elsewhere "
            f"({_other_starts(facts)}), or look for several modes."
        )


def _warm_up_problems(warmup: WarmUp | None, facts: RunFacts) -> Iterator[str]:
    """Warning for chains whose step size or mass matrix still changed much at the end of warm-up.

    After a warm-up of usual length, it may also be that no step size and no matrix fit everywhere.
    """
    if warmup is None or np.all(warmup.is_settled):
        return
    num_warmup = facts.num_warmup or warmup.window_ends[-1]
    longer = max(_USUAL_WARMUP, 2 * num_warmup)
    if num_warmup < MIN_ITERATIONS:
        yield (
            f"a warm-up of {num_warmup} iterations is too short to learn a step size and a mass "
            f"matrix. Raise num_warmup to {longer}."
        )
        return
    told = []
    if not np.all(warmup.is_step_settled):
        told.append(f"the step size by a factor of {np.max(warmup.last_step_change):.2g}")
    if not np.all(warmup.is_matrix_settled):
        change = np.nanmax(warmup.last_scale_change)
        told.append(f"a standard deviation in the mass matrix by a factor of {change:.2g}")
    moving = np.flatnonzero(~warmup.is_settled)
    else_ = "" if num_warmup < _USUAL_WARMUP else _NO_SINGLE_SCALE
    yield (
        f"warm-up had not settled in {_list_numbers('chain', moving, len(warmup.step_size))}: its "
        f"last windows still changed {' and '.join(told)}, so that steps may not fit where the "
        f"draws are. Raise num_warmup to {longer}{else_}."
    )


def _rounding_problems(stats: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Warning for a log density so large that its rounding decides about acceptance."""
    if "log_density" not in stats:
        return
    log_density = stats["log_density"]
    size = float(np.median(np.abs(log_density)))
    rounding = size * float(jnp.finfo(log_density.dtype).eps)
    if np.isfinite(rounding) and rounding > MAX_ROUNDING:
        yield (
            f"log densities of about {size:.2g} are rounded to {rounding:.2g} in "
            f"{log_density.dtype}, which decides about acceptance as the density does. {_PRECISION}"
            "A constant that the density does not need may also be left out."
        )


def _energy_problems(stats: Mapping[str, np.ndarray], facts: RunFacts) -> Iterator[str]:
    low = np.flatnonzero(ebfmi(stats["energy"]) < LOW_EBFMI) if "energy" in stats else np.zeros(0)
    if low.size:
        by_rule = f", as by {REPARAM} or" if _may_reparam(facts) else ""
        yield (
            f"E-BFMI is below {LOW_EBFMI} in "
            f"{_list_numbers('chain', low, len(stats['energy']))}: the energy mixes slowly, as "
            f"with heavy tails or a funnel. Reparameterize{by_rule} with lighter tails on an "
            f"unconstrained scale, and draw more.{_undo(facts)}"
        )


def _step_bias_problems(stats: Mapping[str, np.ndarray], facts: RunFacts) -> Iterator[str]:
    """Words on the bias of draws by steps that no test of acceptance corrects; always true."""
    if "variance_inflation" not in stats:
        return
    inflation = float(np.mean(stats["variance_inflation"]))
    noise = float(np.mean(stats["gradient_noise"]))
    half = float(np.median(stats["step_size"])) / 2
    yield (
        "draws are biased by the step size, as steps of stochastic gradients are not corrected by "
        "a test of acceptance: on a normal posterior with the covariance of the kernel, and with "
        f"the noise that the gradients had (variance {noise:.2g} of the standardized coordinate "
        f"with the most), variances of draws would be at most {inflation:.2%} too large. A smaller "
        "step lowers the bias, "
        f"{facts.kernel or 'kernel'}(step_size={half:.2g}), and a larger batch_size the noise; "
        "the draws of NUTS() have no such bias."
    )


def _estimate_problems(stats: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Warning where log likelihoods are estimated too roughly."""
    variance = float(np.mean(stats.get("estimate_variance", 0)))
    if variance > MAX_ESTIMATE_VARIANCE:
        yield (
            f"log likelihoods were estimated with a variance of {variance:.2g}, more than "
            f"{MAX_ESTIMATE_VARIANCE:g}: the perturbed posterior that draws are of may be far from "
            "the posterior. Take a larger batch_size."
        )


def _mixing_problems(
    draws: Mapping[str, Any],
    stats: Mapping[str, np.ndarray],
    summary: Summary,
    facts: RunFacts,
) -> Iterator[str]:
    # Too few chains or draws to tell.
    if summary.num_chains == 1:
        yield "R-hat needs two chains at least: run num_chains=4 to see whether they agree."
    is_nested = facts.num_superchains is not None
    if summary.num_draws < MIN_DRAWS:
        what, unknown = ("ESS needs", "how much they are worth") if is_nested else _OF_CHAINS
        yield (
            f"{what} {MIN_DRAWS} draws of each chain at least, got {summary.num_draws}: nothing "
            f"can be said of {unknown}. Raise num_draws."
        )
    # Chains that do not agree.
    high_rhat, enough = _limits(summary, facts)
    is_high = summary.rhat > high_rhat
    high = np.flatnonzero(is_high)
    matched = find_switching(draws, summary, high_rhat) if high.size else {}
    unequal = unequal_densities(stats) if matched else None
    switched = matched if unequal is None else {}
    assigned = find_assignments(draws, summary, high_rhat, switched)
    is_switched = np.zeros(len(summary), bool)
    for site in summary.sites:
        is_switched[site.start : site.stop] = site.name in {*switched, *assigned}
    if high.size:
        worst = summary.names[int(np.nanargmax(summary.rhat))]
        adapts = _is_adapted(facts) or facts.is_ensemble
        longer = "num_warmup and num_draws" if adapts else "num_draws"
        what = "R-hat"
        why = "the chains do not agree"
        if is_nested:
            what = "Nested R-hat"
            why = "chains have not forgotten the starts that they share"
        remedy = ""
        if switched:
            remedy = remedy_of_switching(
                switched, assigned, as_many_entries(summary, switched, assigned)
            )
        elif unequal is not None:
            remedy = _unequal_modes(matched, unequal)
        if not switched or np.any(is_high & ~is_switched):
            remedy += (
                f" Raise {longer}; if that does not help, look for several modes or parameters "
                "that the data cannot tell apart."
            )
        yield (
            f"{what} exceeds {high_rhat:.3g} for {high.size} of {len(summary)} scalars, most for "
            f"{worst} ({_rhat_in_words(np.nanmax(summary.rhat))}): {why}, so neither means "
            f"nor intervals can be trusted.{remedy}"
        )
    # Draws that are worth too little. Where labels switch, ESS is of nothing.
    ess = np.where(is_switched, np.nan, np.fmin(summary.ess_bulk, summary.ess_tail))
    if np.any(ess < enough):
        worst = summary.names[int(np.nanargmin(ess))]
        is_few = summary.num_chains < MANY_CHAINS
        each = f" ({LOW_ESS_PER_CHAIN} per chain)" if is_few else ""
        unreliable = "quantiles are" if is_nested else "quantiles and R-hat are"
        yield (
            f"ESS is below {enough}{each} for {np.sum(ess < enough)} of "
            f"{len(summary)} scalars, least for {worst} ({np.nanmin(ess):.0f}): {unreliable} "
            f"unreliable. {_slow_remedy(facts)}"
        )
    # Draws that are not finite.
    unknown = np.flatnonzero(~np.isfinite(summary.mean))
    if unknown.size:
        yield (
            f"{unknown.size} of {len(summary)} scalars, {summary.names[unknown[0]]} first, have "
            "draws that are not finite: look for overflow in the transformation of these sites."
        )


def _unequal_modes(matched: Mapping[str, int], unequal: tuple[int, int, float, float]) -> str:
    """Sentence, with a space in front, on sites that match although the log densities do not."""
    low, high, least, most = unequal
    return (
        f" With the entries of {names_in_words(matched)} permuted in each draw, the chains agree "
        "there; but their mean log densities differ by more than their Monte Carlo error "
        f"({least:.4g} of chain {low}, {most:.4g} of chain {high}), so the chains are not "
        "permutations of each other, and inference.relabel would not mend them."
    )


def _rhat_in_words(rhat: float) -> str:
    """Two decimals, or three where two could not be told from the limit."""
    (exact,) = print_rhat(np.array([rhat]))
    return exact if rhat < 1.1 or exact.startswith(">") else f"{rhat:.2f}"


def _is_adapted(facts: RunFacts) -> bool:
    """Whether warm-up adapts the kernel, if there is a warm-up."""
    return facts.mass_matrix is not None


def _may_reparam(facts: RunFacts) -> bool:
    """Whether `ppl.auto_reparam` changes the model, as far as is known."""
    return facts.noncentering in (None, "possible")


def _undo(facts: RunFacts) -> str:
    """Sentence with a space in front for a model that is already reparameterized, else nothing."""
    return f" {UNDO}" if facts.noncentering == "done" else ""


def _slow_remedy(facts: RunFacts) -> str:
    """Remedy against chains that move slowly."""
    known = facts.noncentering
    if facts.transport:
        return f"Raise num_draws, or {_fit_remedies(facts)[0]}."
    if facts.kernel == "Gibbs":
        return (
            "Raise num_draws; blocks that depend strongly on each other move slowly one by one: "
            "let NUTS() move them together, with discrete sites summed out by ppl.marginalize"
            " where their states are few."
        )
    if known == "possible":
        return f"Raise num_draws, or reparameterize hierarchical sites, as by {REPARAM}."
    if known == "impossible":
        return "Raise num_draws, or bring parameters to similar scales."
    return f"Raise num_draws, or reparameterize so that chains move faster.{_undo(facts)}"


def _step_remedies(facts: RunFacts) -> list[str]:
    """Remedies against a too large step size; an empty list if no target rate is higher."""
    if facts.is_ensemble:
        return ["take smaller steps (target_acceptance_rate or step_size_factor of the kernel)"]
    if facts.kernel == "ParallelTempering":
        return ["raise the rate of the kernel, ParallelTempering(target_acceptance_rate=0.95)"]
    if not _is_adapted(facts):
        return ["take smaller steps"]
    if facts.num_warmup == 0:
        return ["let warm-up find the step size (num_warmup=1000)"]
    target = facts.target_acceptance_rate
    if target is None:
        return ["raise target_acceptance_rate to 0.95 or more"]
    higher = [x for x in _HIGHER_TARGETS if x > target]
    return [f"raise target_acceptance_rate to {higher[0]}"] if higher else []


def _fit_remedies(facts: RunFacts) -> list[str]:
    """Remedy against a poor fit of the guide that transports chains."""
    if not facts.transport:
        return []
    richer = "a flow with more layers" if facts.transport in _FLOWS else "a flow"
    return [f"fit the guide that transports the chains with more steps, or {richer}"]


def _kernel_remedies(stats: Mapping[str, np.ndarray], facts: RunFacts) -> list[str]:
    """Remedy against curvature that varies, for runs of NUTS; finer steps for those of WALNUTS."""
    if "depth" not in stats or not _is_adapted(facts):
        return []
    if "halvings" not in stats:
        return ["take kernel=WALNUTS(), whose steps are finer there"]
    halvings = int(np.max(stats["halvings"]))
    more = min(halvings + 4, _MOST_HALVINGS)
    return [f"allow WALNUTS(max_halvings={more})"] if more > halvings > 0 else []


def _other_starts(facts: RunFacts) -> str:
    """Values of `init` that the run has not had."""
    if facts.transport:
        return "init=another fit, or transport=False"
    names = [repr(name) for name in ("prior", "optimum") if name != facts.init]
    return f"init={', '.join(names)} or values that you know"


def _either(remedies: Sequence[str]) -> str:
    """Sentence that offers one remedy or another."""
    *others, last = remedies
    text = f"{', '.join(others)}, or {last}" if others else last
    return f"{text[0].upper()}{text[1:]}."


def _list_numbers(noun: str, numbers: np.ndarray, total: int) -> str:
    """Chains by number, such as "chains 0, 3"; if many, the first ones and a count of `total`."""
    more = f" ({len(numbers)} of {total})" if len(numbers) > _MAX_LISTED else ""
    return f"{noun}{'s' if len(numbers) > 1 else ''} {_list_some([*map(str, numbers)])}{more}"


def _list_some(texts: Sequence[str]) -> str:
    """Texts joined by commas; if there are many, only the first ones."""
    is_long = len(texts) > _MAX_LISTED
    return ", ".join([*texts[:_NUM_LISTED], "..."] if is_long else texts)
