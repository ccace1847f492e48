"""Checks of predictions: what is drawn anew given some sites, beside draws of plain Python."""

from typing import Any

import jax
import numpy as np
from scipy import stats

import ppl

from .case import Case, to_arrays
from .sums import NUM_DRAWS
from .to_jax import flat, nested

EDGE = 0.02  # Draws of plain Python are not as near to an edge.


def check_predictions(case: Case) -> bool:
    """Draws of sites that are not given, also of a model some of whose sites are summed out."""
    given, rest = case.split(list(case.sites), 0.4, "given")
    if not given or not rest:
        return False
    summed = [p for p in case.discrete(2**5, "summed") if p in rest]
    model = case.model
    if summed and case.luck("with sums") < 0.6:
        model = ppl.marginalize(model, [".".join(p) for p in summed])
    draws = jax.tree.map(lambda x: np.broadcast_to(x, (NUM_DRAWS, *x.shape)), to_arrays(given))
    found = flat(ppl.predict(model, nested(flat(draws)))(jax.random.key(case.seed)))
    runs = [case.oracle.run(given, seed=i) for i in range(NUM_DRAWS)]
    for path, x in found.items():
        expected = np.stack([(run.values | run.derived)[path] for run in runs])
        assert np.shape(x) == expected.shape, f"{path}: shape {np.shape(x)} for {expected.shape}"
        if path not in given:
            _compare(path, np.asarray(x), expected, case.run.supports.get(path))
    assert {*found} >= {p for p in rest if p not in summed}
    return True


def _compare(path: Any, found: Any, expected: Any, support: str | None) -> None:
    """Each entry has the same distribution, by the test of Kolmogorov and Smirnov."""
    columns = [np.reshape(x, (NUM_DRAWS, -1)) for x in (found, expected)]
    if support in ("positive", "unit", "simplex"):
        most = 1 - EDGE if support == "unit" else np.inf
        columns = [np.clip(x, EDGE, most) for x in columns]
    for i in range(columns[0].shape[1]):
        mine = columns[0][:, i]
        exact = columns[1][:, i]
        if np.allclose(mine, exact, rtol=1e-4, atol=1e-4):  # It is not random.
            continue
        test: Any = stats.ks_2samp(np.round(mine, 5), np.round(exact, 5), method="asymp")
        assert test.pvalue > 1e-8, f"predictions of {path}, entry {i}: p-value {test.pvalue:.1e}"
