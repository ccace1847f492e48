"""What is refused in the table of joints, with a part of the words that say so."""

from tests.joints.rows import BLOCK, BOTH, SCALE, WEIGH, Row


def refusal(row: Row, column: str) -> str | None:
    """Words of the error of a cell, or None where the cell is right."""
    oracle = row.oracle
    if column == "recover" and not oracle.out:
        return "has no summed sites"
    if column == "predict" and row.has(BLOCK) and not row.has_sum:
        return "has no site but those that are given or observed"
    if column in ("loo", "cross_validate") and not oracle.observed:
        return "has no observed site, so there is no likelihood"
    if column == "calibrate" and row.has(BLOCK):
        return "the model has no site 'v'"
    if column == "calibrate" and row.has(SCALE, WEIGH):
        return "has log probabilities that ppl.scale multiplies"
    if column == "conditional" and row.has(WEIGH) and row.has(BOTH):
        return "by factors that are not known to be equal"
    return None
