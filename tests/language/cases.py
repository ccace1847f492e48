"""The table of models: each with its arguments, values of its sites, and its density written by hand.

The densities by hand use `jax.scipy.stats` and loops or broadcasting of their own, and nothing of the library.
"""

# ruff: noqa: E501

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy import stats

import ppl

from .loops import (
    by_group,
    by_group_density,
    closed_over_in_scan,
    empty_loop,
    loops,
    loops_density,
    random_walk,
    random_walk_density,
    scan_in_scan,
    scan_in_scan_density,
    scan_vmap_scan,
    scan_vmap_scan_density,
    series,
    series_density,
    shared_in_vmap,
    switch_in_scan,
    switch_in_scan_density,
    two_vmaps,
    vmap_scan_vmap,
    walkers,
    walkers_density,
)
from .programs import (
    COND,
    COUNTS,
    EFFECTS,
    NESTED,
    SCALE_TRIL,
    SCHOOLS,
    SIGMA,
    SITE,
    cond_density,
    cond_on,
    design_matrix,
    eight_schools,
    eight_schools_density,
    jitted,
    mixture,
    mixture_density,
    nested,
    nested_density,
    normal,
    poisson_density,
    poisson_regression,
    positive,
    raw_tfp,
    raw_tfp_density,
    real,
    simplex,
    vectors,
    vectors_density,
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and all that is known of its density.

    Attributes:
        id: Where the sites stand.
        model: `f(key, *args)`.
        args: Floats and arrays of floats.
        values: For every latent site.
        density: `(values, *args) -> scalar`.
        shapes: Of the log probability of every site.
    """

    id: str
    model: Callable[..., Any]
    args: tuple[Any, ...]
    values: Mapping[str, Any]
    density: Callable[..., Any]
    shapes: Mapping[str, Any]


ROWS = real(3, 4)
CASES = [
    Case("eight-schools", eight_schools, (SIGMA,), SCHOOLS | {"y": EFFECTS}, eight_schools_density, {"mu": (), "tau": (), "theta": (8,), "y": (8,)}),
    Case("eight-schools-observed", ppl.condition(eight_schools, {"y": EFFECTS}), (SIGMA,), SCHOOLS, lambda v, s: eight_schools_density(v, s, EFFECTS), {"mu": (), "tau": (), "theta": (8,), "y": (8,)}),
    Case("random-walk", random_walk, (0.5,), {"scale": 0.7, "x": real(5), "y": real(5, 1)[:, 0]}, random_walk_density, {"scale": (), "x": (5,), "y": (5,)}),
    Case("random-walk-observed", ppl.condition(random_walk, {"y": real(5)}), (0.5,), {"scale": 0.7, "x": real(5, 1)[:, 0]}, lambda v, s: random_walk_density(v, s, real(5)), {"scale": (), "x": (5,), "y": (5,)}),
    Case("regression-by-vmap", by_group, (ROWS,), {"slope": 0.3, "scale": 1.2, "level": real(3), "y": real(3, 4)}, by_group_density, {"slope": (), "scale": (), "level": (3,), "y": (3, 4)}),
    Case("regression-by-vmap-observed", ppl.condition(by_group, {"y": real(3, 4)}), (ROWS,), {"slope": 0.3, "scale": 1.2, "level": real(3)}, lambda v, x: by_group_density({**v, "y": real(3, 4)}, x), {"slope": (), "scale": (), "level": (3,), "y": (3, 4)}),
    Case("scan-of-vmap", walkers, (real(3),), {"x": real(4, 3)}, walkers_density, {"x": (4, 3)}),
    Case("scan-of-vmap-observed", ppl.condition(walkers, {"x": real(4, 3)}), (real(3),), {}, lambda _, start: walkers_density({"x": real(4, 3)}, start), {"x": (4, 3)}),
    Case("vmap-of-scan", series, (real(3),), {"scale": positive(3), "x": real(3, 4)}, series_density, {"scale": (3,), "x": (3, 4)}),
    Case("vmap-of-scan-observed", ppl.condition(series, {"x": real(3, 4)}), (real(3),), {"scale": positive(3)}, lambda v, start: series_density({**v, "x": real(3, 4)}, start), {"scale": (3,), "x": (3, 4)}),
    Case("scan-in-scan", scan_in_scan, (0.5,), {"jump": real(2), "x": real(2, 3)}, scan_in_scan_density, {"jump": (2,), "x": (2, 3)}),
    Case("vmap-scan-vmap", vmap_scan_vmap, (real(2, 3),), {"x": real(2, 4, 3)}, lambda v, loc: normal(v["x"], jnp.concatenate([loc[:, None], v["x"][:, :-1]], 1), 1.5).sum(), {"x": (2, 4, 3)}),
    Case("scan-vmap-scan", scan_vmap_scan, (real(3),), {"x": real(2, 3, 4)}, scan_vmap_scan_density, {"x": (2, 3, 4)}),
    Case("jit", jitted, (1.5,), {"x": 0.7, "y": -0.4}, lambda v, s: stats.cauchy.logpdf(v["x"]) + normal(v["y"], 2 * v["x"], s), {"x": (), "y": ()}),
    Case("cond-on-data", cond_on(lambda _: design_matrix()[0, 0] > 5), (0.1,), {"z": 0.4, "x": 0.8, "y": 2.0}, cond_density(False), COND),
    Case("cond-on-latent-true", cond_on(lambda z: z > 0), (0.1,), {"z": 0.4, "x": 0.8, "y": 2.0}, cond_density(True), COND),
    Case("cond-on-latent-false", cond_on(lambda z: z > 0), (0.1,), {"z": -0.4, "x": 0.8, "y": 2.0}, cond_density(False), COND),
    Case("switch-in-scan", switch_in_scan, (0.2,), {"x": real(4)}, switch_in_scan_density, {"x": (4,)}),
    Case("nest", nested, (0.3,), {"a": NESTED, "b": NESTED, "c": {"d": {"x": real(3), "y": positive(3)}}}, nested_density, {"a": SITE, "b": SITE, "c": {"d": {"x": (3,), "y": (3,)}}}),
    Case("closed-over-data", ppl.condition(poisson_regression, {"count": COUNTS}), (), {"w": real(2)}, poisson_density, {"w": (2,), "count": (6,)}),
    Case("closed-over-in-scan", closed_over_in_scan, (0.4,), {"x": real(6, 2)}, lambda v, slope: normal(v["x"], slope * design_matrix()).sum(), {"x": (6, 2)}),
    Case("vectors-in-vmap", vectors, (real(3, 2), SCALE_TRIL), {"weights": simplex(3), "x": real(2, 3), "p": simplex(2, 3), "y": positive(2, 3)}, vectors_density, {"weights": (), "x": (2,), "p": (2,), "y": (2,)}),
    Case("shared-in-vmap", shared_in_vmap, (real(3),), {"slope": 0.6, "y": positive(3)}, lambda v, x: normal(v["slope"]) + normal(v["y"], v["slope"] * x).sum(), {"slope": (), "y": (3,)}),
    Case("two-vmaps", two_vmaps, (real(4), positive(3)), {"x": real(4, 3, 2)}, lambda v, rows, columns: normal(v["x"], rows[:, None, None], columns[:, None]).sum(), {"x": (4, 3, 2)}),
    Case("raw-tfp", raw_tfp, (np.float64(0.3),), {"mu": 0.5, "s": 1.4, "pair": real(3, 2), "y": real(3)}, raw_tfp_density, {"mu": (), "s": (), "pair": (3,), "y": (3,)}),
    Case("mixture-in-vmap", mixture, (real(2),), {"p": 0.3, "x": real(4)}, mixture_density, {"p": (), "x": (4,)}),
    Case("empty-loop", empty_loop, (0.2,), {"x": 0.5, "never": np.zeros(0)}, lambda v, start: normal(v["x"], start), {"x": (), "never": (0,)}),
    Case("loops", loops, (0.2,), {"fori": real(3), "map": positive(3), "back": real(3, 1)[:, 0]}, loops_density, {"fori": (3,), "map": (3,), "back": (3,)}),
]  # fmt: skip
