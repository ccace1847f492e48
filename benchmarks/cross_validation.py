"""How long do exact refits take for every observation, and PSIS-LOO beside ArviZ's?

Data: 434 scores of children (kidiq) in Stan's format, a JSON file with `kid_score`, `mom_iq` and
`mom_hs`, or made up if none is given.

    python benchmarks/cross_validation.py [kidiq.json]

Refits: one by one, each of 4 chains x 500 draws, begun at the fit to all data. Correctness: PSIS is
reliable for these data, so that the sums of both must agree within a few tenths.
"""

import json
import pathlib
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import distributions as dist
import inference
import ppl
from inference.common.pointwise import log_likelihoods
from inference.results.psis_loo import psis_loo
from ppl.transforms.likelihood import Likelihood


def data() -> tuple[Any, Any, Any]:
    """Scores, IQ of the mother, whether she has finished high school."""
    if len(sys.argv) > 1:
        found = json.loads(pathlib.Path(sys.argv[1]).read_text())
        found = found.get("data", found)
        of = lambda name: jnp.array(found[name], float)  # noqa: E731
        return of("kid_score"), of("mom_iq"), of("mom_hs")
    rng = np.random.default_rng(0)
    iq, hs = rng.normal(100, 15, 434), rng.uniform(size=434) < 0.8
    score = 26 + 0.56 * iq + 6 * hs + rng.normal(0, 18, 434)
    return jnp.asarray(score, float), jnp.asarray(iq, float), jnp.asarray(hs, float)


def model(key: Any, iq: Any, hs: Any) -> Any:
    """Linear regression with unknown noise."""
    beta = ppl.sample(key, dist.Normal(jnp.zeros(3), 100.0), name="beta")
    sigma = ppl.sample(key, dist.HalfCauchy(0.0, 2.5), name="sigma")
    return ppl.sample(key, dist.Normal(beta[0] + beta[1] * iq + beta[2] * hs, sigma), name="score")


def timed(label: str, run: Callable[[], Any]) -> Any:
    """Result of a function, whose time is printed."""
    began = time.perf_counter()
    found = run()
    print(f"{label:45} {time.perf_counter() - began:8.2f} s")
    return found


def main() -> None:
    """Prints the times."""
    print(jax.devices()[0], "JAX", jax.__version__, "seed 0")
    score, iq, hs = data()
    posterior = ppl.condition(model, {"score": score})
    result = timed("fit to all data", lambda: inference.mcmc(jax.random.key(0), posterior, iq, hs))
    loo = lambda **given: inference.loo(result, posterior, iq, hs, **given)  # noqa: E731
    timed("PSIS-LOO, first call", loo)
    psis = timed("PSIS-LOO, second call", loo)
    exact = timed("exact refits, all", lambda: loo(refit=-np.inf))
    print(f"elpd {psis.elpd:.2f} by PSIS, {exact.elpd:.2f} by {exact.is_exact.sum()} refits")
    log_likelihood = log_likelihoods(Likelihood.of(posterior, (iq, hs), {}), result.draws)["score"]
    ours = timed("PSIS-LOO of given likelihoods", lambda: psis_loo(log_likelihood, None, 1.0))
    try:
        import arviz
    except ImportError:
        return
    groups = {"posterior": result.draws, "log_likelihood": {"score": log_likelihood}}
    is_new = int(arviz.__version__.split(".")[0]) >= 1
    container = arviz.from_dict(groups) if is_new else arviz.from_dict(**groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = lambda: arviz.loo(container, pointwise=True, reff=1.0)  # noqa: E731
        theirs = timed(f"ArviZ {arviz.__version__} of the same", run)
    elpd = theirs.elpd if is_new else theirs.elpd_loo
    print(f"difference of the sums {abs(float(elpd) - ours.elpd.sum()):.1e}")


if __name__ == "__main__":
    main()
