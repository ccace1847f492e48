"""Checks of transformed models: one after another, in a random order, plain and marginalized."""

import random
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import ppl

from .case import Case, Values, to_arrays
from .checks import close
from .oracle import Path
from .to_jax import nested

FACTOR, OUTER = 1.3, "outer"


def check_transformed(case: Case) -> bool:
    """condition, intervene, block, scale, nest, reparam and jit, in a random order."""
    fixed, rest = case.split(list(case.sites), 0.2, "fixed")
    data, given = case.split(list(rest), 0.4, "data")
    hidden = {p for p in data if case.luck("hidden", p) < 0.3}
    steps: list[str] = [step for step, x in (("condition", data), ("intervene", fixed)) if x]
    steps += [step for step in ("scale", "nest", "jit", "reparam") if case.luck(step) < 0.5]
    random.Random(case.seed).shuffle(steps)
    model, prefix = case.model, ()
    for step in steps:
        under = lambda values, prefix=prefix: nested({(*prefix, *p): x for p, x in values.items()})  # noqa: E731
        match step:
            case "condition":
                model = ppl.condition(model, under(data))
                if hidden:
                    model = ppl.block(model, [".".join((*prefix, *p)) for p in hidden])
            case "intervene":
                model = ppl.intervene(model, under(fixed))
            case "scale":
                model = ppl.scale(model, FACTOR)
            case "nest":
                model, prefix = ppl.nest(model, scope=OUTER), (OUTER,)
            case "jit":
                model = jax.jit(model)
            case "reparam":
                model = ppl.reparam(model, ppl.auto_reparam)
    run = case.oracle.run(case.run.values, fixed=fixed)
    terms = run.log_probs | run.factors
    expected = sum(float(np.sum(x)) for p, x in terms.items() if p not in hidden)
    expected *= FACTOR if "scale" in steps else 1.0
    values = to_arrays({(*prefix, *p): x for p, x in given.items()})
    close(f"log_density after {steps}", ppl.log_density(model)(values), expected)
    return True


def gaps(case: Case, path: Path) -> Any:
    """A random mask of missing entries, not of parts of vectors."""
    value, log_probs = case.run.values[path], case.run.log_probs[path]
    rng = random.Random(f"{case.seed} gaps {path}")
    mask = np.array([rng.random() < 0.4 for _ in range(np.size(log_probs))], bool)
    extra = np.ndim(value) - np.ndim(log_probs)
    mask = np.reshape(mask, (*np.shape(log_probs), *[1] * extra))
    return np.broadcast_to(mask, np.shape(value))


def entries(case: Case, path: Path, mask: Any) -> Any:
    """A mask of entries, of the shape of the log probabilities."""
    shape = np.shape(case.run.log_probs[path])
    return mask[(..., *[0] * (np.ndim(mask) - len(shape)))]


def check_gaps(case: Case) -> bool:
    """Data with gaps that are imputed or ignored."""
    data, given = case.split(list(case.sites), 0.6, "data")
    masks = {p: gaps(case, p) for p in data if case.luck("gaps", p) < 0.7}
    imputed = {p for p in masks if case.run.supports[p] != "count" and case.luck("impute", p) < 0.5}
    ignored = {p: entries(case, p, x) for p, x in masks.items() if p not in imputed}
    with_gaps: dict[Path, Any] = dict(data)
    for path, mask in masks.items():
        how = ppl.impute if path in imputed else ppl.ignore
        value = np.asarray(data[path])
        filled = np.where(mask, 7, value)  # What stands at a gap means nothing.
        with_gaps[path] = how(filled.astype(value.dtype), mask)
    model = ppl.condition(case.model, nested(with_gaps))
    values = to_arrays(given | {p: case.run.values[p] for p in imputed})
    expected = case.oracle.run(case.run.values, ignored=ignored).log_density()
    close("log_density with gaps", ppl.log_density(model)(values), expected)
    return bool(masks)


def known(case: Case, masks: Mapping[Path, Any], state: Values) -> bool:
    """Whether a joint state agrees with the data where they are known."""
    return all(
        np.array_equal(np.where(m, 0, state[p]), np.where(m, 0, case.run.values[p]))
        for p, m in masks.items()
    )
