"""The page "What goes with what": the table of joints as text."""

import pathlib
from collections.abc import Sequence
from typing import Any

from tests.joints.cells import COLUMNS, columns_of
from tests.joints.refusals import refusal
from tests.joints.rows import SINGLES, WITH_MARGINALS, WITHOUT_MARGINALS, Row

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "what-goes-with-what.md"
RIGHT = "✓"
HEAD = """# What goes with what

Each transformation of a model, in front of each function that takes one.
`python -m tests.joints` writes this page out of the tests in `tests/joints/`, in which every cell
is held against a second form of the model, in NumPy:

- ✓: the result is right: densities with their gradients in both floats, under `jit` and `vmap`;
  draws by mean and variance; posteriors, evidence and predictions against integrals on a grid.
- A number: the call is refused, in the words below that have the number.
- Nothing: the pair has not been asked; each transformation by itself has.

The model has the sites `mu`, `b`, which depends on it, normal `w` with the data `v`, and, where a
site is summed, `z` with the data `y`:

```py
mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
b = ppl.sample(key, dist.LogNormal(0.3 * mu, 0.5), name="b")
w = ppl.sample(key, dist.Normal(jnp.full(3, mu), 1.0), name="w")
ppl.sample(key, dist.Normal(w + b * x, 0.5), name="v")
z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(4, 0.3)), name="z")
ppl.sample(key, dist.Normal(mu + 2.0 * z, 1.0), name="y")
```

| transformation | here |
|---|---|
| `intervene` | fixes `b`; `intervene on v` fixes `v`, which has no data then |
| `block` | hides `v` |
| `scale` | multiplies all scores by 0.6, or each row of `w` and `v` by its own weight |
| `nest` | is around the whole model |
| `reparam` | takes `ppl.LearnedCentering()` for `b` |
| `label` | names the entries of `v` |
| `with_params` | gives the location of `mu`, a parameter or a state |
| a table as argument | has `x` as a column: a data frame of pandas; of xarray for `mcmc_each` |
| `impute`, `ignore` | say what a gap in `v` is |
| `auto_marginal` | takes out `mu` and `w`, or `w` alone where the weights of the rows differ |
| `module` | has `w` as the weights of a network, or the location of `mu` as a parameter |
| `from_numpyro` | is the model written in NumPyro, with data by `condition` or by `obs=` |
| `from_pymc` | is the model written in PyMC, with data by `condition` or by `observed=` |
| `from_stan` | is the program in Stan with its data, an argument of the model |
| `from_density` | has the log density of `mu`, the logarithm of `b`, and `w`, written by hand |

`gibbs` is `mcmc(kernel=Gibbs.auto())` of the model with `z` and `y`, so that discrete sites are
drawn, too; `tempering` is `mcmc(kernel=ParallelTempering())` and `evidence`. `handed_on` is
`mcmc(init=result)`, with the warm-up of another run; `split_data` is `mcmc` with `x` split over
three devices, which a Stan program cannot have, as its data stand in the program.

Of several transformations in a row, the first one is applied first. `recover` draws what is taken
out given all that was data when it was taken out. `predict` and `calibrate` are asked of the model
without its data; `predict` with `impute` also with them, where it draws the gap. The two groups are
`Enumerate` of `z`, and `Gaussian` or `Laplace` of `w`. A single transformation, and some pairs,
meet `mcmc`, `svi` and `calibrate` in runs that are long enough for moments, evidence and ranks. Of
the other pairs, a short run has the right log density at its draws, and `calibrate` gives its fits
posteriors with the right density of the simulated data.
"""


def write() -> str:
    """The text of the page."""
    reasons: dict[str, int] = {}
    tables = [
        "## One transformation",
        _table(SINGLES, COLUMNS, reasons),
        "## Two transformations",
        _table(WITHOUT_MARGINALS, COLUMNS, reasons),
        "## A transformation and marginalize",
        _table(WITH_MARGINALS, COLUMNS, reasons),
    ]
    listed = "\n".join(f'{number}. "… {words} …"' for words, number in reasons.items())
    return "\n\n".join([HEAD.rstrip(), *tables, "## Refused", listed]) + "\n"


def _table(rows: Sequence[Row], columns: Sequence[Any], reasons: dict[str, int]) -> str:
    names = [f"`{column.__name__}`" for column in columns]
    lines = ["| model | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for row in rows:
        cells = [_cell(row, column, reasons) for column in columns]
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: Row, column: Any, reasons: dict[str, int]) -> str:
    if column not in columns_of(row):
        return ""
    words = refusal(row, column.__name__)
    return RIGHT if words is None else str(reasons.setdefault(words, len(reasons) + 1))
