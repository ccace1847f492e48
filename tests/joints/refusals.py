"""What is refused in the table of joints, with a part of the words that say so."""

from tests.joints.rows import BLOCK, FROM_PYMC_OBS, INTERVENE, NET, REPARAM, SCALE, WEIGH, Row

OF_PARAMETERS = (
    *("log_density", "log_probs", "simulate", "trace", "graph", "recover"),
    *("conditional", "svi"),
)

BY_POSITIONS = ("unconstrain", "mcmc", "loo", "cross_validate", "to_arviz")
FROM_PRIOR = ("importance", "tempering", "smc")


def refusal(row: Row, column: str) -> str | None:
    """Words of the error of a cell, or None where the cell is right."""
    oracle = row.oracle
    at = {step: i for i, step in enumerate(row.steps)}
    is_moved = row.has(REPARAM) and at.get(INTERVENE, len(at)) < at[REPARAM]
    if is_moved or (oracle.fixes_v and column == "calibrate"):
        return "is deterministic: it follows from other sites, or is fixed by intervene"
    is_hidden = row.has(BLOCK) and any(step.is_data for step in row.steps[at[BLOCK] :])
    if is_hidden and column != "predict":  # It is asked without the data.
        return "has no site 'v'"
    if row.has(FROM_PYMC_OBS) and row.has(REPARAM) and column in BY_POSITIONS:
        return "pymc.LogNormal has no location and scale to center by"
    if row.has(NET) and column == "predict":  # It has draws, and not the fit.
        return "whose value in the fit is not among the draws"
    if row.has(NET) and column not in OF_PARAMETERS:
        return "inference.svi alone finds parameters of models"
    if oracle.is_bare and column in ("simulate", "trace"):
        return "has no prior to draw from"
    if oracle.is_bare and column == "calibrate":
        return "a part of its density that simulations do not have"
    if "mu" in oracle.out and column == "predict":
        return "taken out by ppl.marginalize and drawn from the prior here"
    if "mu" in oracle.out and column in ("loo", "cross_validate"):
        return "is scored together with the latent site 'b'"
    if column == "recover" and not oracle.out:
        return "has no summed sites"
    has_new = row.has_sum or row.has(INTERVENE) or not row.has(BLOCK)
    has_new &= not oracle.is_bare or oracle.records_values
    if column == "predict" and not has_new:
        return "has no site but those that are given or observed"
    if column in ("loo", "cross_validate") and not oracle.observed:
        reason = "only factors" if oracle.is_bare else "so there is no likelihood"
        return f"has no observed site, {reason}"
    if column == "calibrate" and row.has(SCALE, WEIGH):
        return "has log probabilities that ppl.scale multiplies"
    if column == "calibrate" and row.has(BLOCK):
        return f"has no site {oracle.full('v')!r}"
    if column == "nested_laplace" and row.has(SCALE, WEIGH):
        return "and no normal distribution is drawn to a power"
    if column == "nested_laplace" and oracle.out:
        return "and each of their values may have a mode of its own"
    if column == "nested_laplace" and oracle.is_bare:
        return "no latent site is normal given the others"
    if column == "nested_laplace" and oracle.fixes_b:
        return "are normal a priori, and nothing is left to spread points over"
    if column in FROM_PRIOR and "v" in oracle.latent:
        return "is observed in part, so draws from the prior have no weights"
    if column in FROM_PRIOR and "mu" in oracle.out:
        return "are scored together, by one sum or integral"
    if column in FROM_PRIOR and oracle.is_bare:
        return "has no prior to draw from"
    return None
