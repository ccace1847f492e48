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
    Case(id="eight-schools", model=eight_schools, args=(SIGMA,),
         values=SCHOOLS | {"y": EFFECTS},
         density=eight_schools_density, shapes={"mu": (), "tau": (), "theta": (8,), "y": (8,)}),
    Case(id="eight-schools-observed",
         model=ppl.condition(eight_schools, {"y": EFFECTS}), args=(SIGMA,),
         values=SCHOOLS,
         density=lambda v, s: eight_schools_density(v, s, EFFECTS),
         shapes={"mu": (), "tau": (), "theta": (8,), "y": (8,)}),
    Case(id="random-walk", model=random_walk, args=(0.5,),
         values={"scale": 0.7, "x": real(5), "y": real(5, 1)[:, 0]},
         density=random_walk_density, shapes={"scale": (), "x": (5,), "y": (5,)}),
    Case(id="random-walk-observed", model=ppl.condition(random_walk, {"y": real(5)}), args=(0.5,),
         values={"scale": 0.7, "x": real(5, 1)[:, 0]},
         density=lambda v, s: random_walk_density(v, s, real(5)),
         shapes={"scale": (), "x": (5,), "y": (5,)}),
    Case(id="regression-by-vmap", model=by_group, args=(ROWS,),
         values={"slope": 0.3, "scale": 1.2, "level": real(3), "y": real(3, 4)},
         density=by_group_density, shapes={"slope": (), "scale": (), "level": (3,), "y": (3, 4)}),
    Case(id="regression-by-vmap-observed",
         model=ppl.condition(by_group, {"y": real(3, 4)}), args=(ROWS,),
         values={"slope": 0.3, "scale": 1.2, "level": real(3)},
         density=lambda v, x: by_group_density({**v, "y": real(3, 4)}, x),
         shapes={"slope": (), "scale": (), "level": (3,), "y": (3, 4)}),
    Case(id="scan-of-vmap", model=walkers, args=(real(3),),
         values={"x": real(4, 3)},
         density=walkers_density, shapes={"x": (4, 3)}),
    Case(id="scan-of-vmap-observed",
         model=ppl.condition(walkers, {"x": real(4, 3)}), args=(real(3),),
         values={},
         density=lambda _, start: walkers_density({"x": real(4, 3)}, start), shapes={"x": (4, 3)}),
    Case(id="vmap-of-scan", model=series, args=(real(3),),
         values={"scale": positive(3), "x": real(3, 4)},
         density=series_density, shapes={"scale": (3,), "x": (3, 4)}),
    Case(id="vmap-of-scan-observed",
         model=ppl.condition(series, {"x": real(3, 4)}), args=(real(3),),
         values={"scale": positive(3)},
         density=lambda v, start: series_density({**v, "x": real(3, 4)}, start),
         shapes={"scale": (3,), "x": (3, 4)}),
    Case(id="scan-in-scan", model=scan_in_scan, args=(0.5,),
         values={"jump": real(2), "x": real(2, 3)},
         density=scan_in_scan_density, shapes={"jump": (2,), "x": (2, 3)}),
    Case(id="vmap-scan-vmap", model=vmap_scan_vmap, args=(real(2, 3),),
         values={"x": real(2, 4, 3)},
         density=lambda v, loc: normal(v["x"], jnp.concatenate([loc[:, None], v["x"][:, :-1]], 1), 1.5).sum(),
         shapes={"x": (2, 4, 3)}),
    Case(id="scan-vmap-scan", model=scan_vmap_scan, args=(real(3),),
         values={"x": real(2, 3, 4)},
         density=scan_vmap_scan_density, shapes={"x": (2, 3, 4)}),
    Case(id="jit", model=jitted, args=(1.5,),
         values={"x": 0.7, "y": -0.4},
         density=lambda v, s: stats.cauchy.logpdf(v["x"]) + normal(v["y"], 2 * v["x"], s),
         shapes={"x": (), "y": ()}),
    Case(id="cond-on-data", model=cond_on(lambda _: design_matrix()[0, 0] > 5), args=(0.1,),
         values={"z": 0.4, "x": 0.8, "y": 2.0},
         density=cond_density(False), shapes=COND),
    Case(id="cond-on-latent-true", model=cond_on(lambda z: z > 0), args=(0.1,),
         values={"z": 0.4, "x": 0.8, "y": 2.0},
         density=cond_density(True), shapes=COND),
    Case(id="cond-on-latent-false", model=cond_on(lambda z: z > 0), args=(0.1,),
         values={"z": -0.4, "x": 0.8, "y": 2.0},
         density=cond_density(False), shapes=COND),
    Case(id="switch-in-scan", model=switch_in_scan, args=(0.2,),
         values={"x": real(4)},
         density=switch_in_scan_density, shapes={"x": (4,)}),
    Case(id="nest", model=nested, args=(0.3,),
         values={"a": NESTED, "b": NESTED, "c": {"d": {"x": real(3), "y": positive(3)}}},
         density=nested_density, shapes={"a": SITE, "b": SITE, "c": {"d": {"x": (3,), "y": (3,)}}}),
    Case(id="closed-over-data", model=ppl.condition(poisson_regression, {"count": COUNTS}), args=(),
         values={"w": real(2)},
         density=poisson_density, shapes={"w": (2,), "count": (6,)}),
    Case(id="closed-over-in-scan", model=closed_over_in_scan, args=(0.4,),
         values={"x": real(6, 2)},
         density=lambda v, slope: normal(v["x"], slope * design_matrix()).sum(),
         shapes={"x": (6, 2)}),
    Case(id="vectors-in-vmap", model=vectors, args=(real(3, 2), SCALE_TRIL),
         values={"weights": simplex(3), "x": real(2, 3), "p": simplex(2, 3), "y": positive(2, 3)},
         density=vectors_density, shapes={"weights": (), "x": (2,), "p": (2,), "y": (2,)}),
    Case(id="shared-in-vmap", model=shared_in_vmap, args=(real(3),),
         values={"slope": 0.6, "y": positive(3)},
         density=lambda v, x: normal(v["slope"]) + normal(v["y"], v["slope"] * x).sum(),
         shapes={"slope": (), "y": (3,)}),
    Case(id="two-vmaps", model=two_vmaps, args=(real(4), positive(3)),
         values={"x": real(4, 3, 2)},
         density=lambda v, rows, columns: normal(v["x"], rows[:, None, None], columns[:, None]).sum(),
         shapes={"x": (4, 3, 2)}),
    Case(id="raw-tfp", model=raw_tfp, args=(np.float64(0.3),),
         values={"mu": 0.5, "s": 1.4, "pair": real(3, 2), "y": real(3)},
         density=raw_tfp_density, shapes={"mu": (), "s": (), "pair": (3,), "y": (3,)}),
    Case(id="mixture-in-vmap", model=mixture, args=(real(2),),
         values={"p": 0.3, "x": real(4)},
         density=mixture_density, shapes={"p": (), "x": (4,)}),
    Case(id="empty-loop", model=empty_loop, args=(0.2,),
         values={"x": 0.5, "never": np.zeros(0)},
         density=lambda v, start: normal(v["x"], start), shapes={"x": (), "never": (0,)}),
    Case(id="loops", model=loops, args=(0.2,),
         values={"fori": real(3), "map": positive(3), "back": real(3, 1)[:, 0]},
         density=loops_density, shapes={"fori": (3,), "map": (3,), "back": (3,)}),
]  # fmt: skip
