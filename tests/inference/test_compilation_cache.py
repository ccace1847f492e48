"""Programs are kept on disk, and found again when this process has forgotten them."""

import collections

import jax
import numpy as np
import pytest

import distributions as dist
import ppl
from inference import mcmc
from inference.runtime import compiled_program
from inference.runtime.compilation_cache import compilation_cache

HIT, MISS = "/jax/compilation_cache/cache_hits", "/jax/compilation_cache/cache_misses"


def model(key):
    return ppl.sample(key, dist.Normal(3.0, 2.0), name="mu")


@pytest.fixture
def events():
    counts = collections.Counter()
    count = lambda event, **_: counts.update([event])  # noqa: E731
    jax.monitoring.register_event_listener(count)
    yield counts
    jax.monitoring.unregister_event_listener(count)


@pytest.mark.slow
def test_a_second_run_compiles_nothing(tmp_path, events):
    runs = []
    for _ in range(2):
        compiled_program.compile_program.cache_clear()
        jax.clear_caches()
        events.clear()
        runs.append(mcmc(jax.random.key(0), model, num_warmup=20, num_draws=20, cache_dir=tmp_path))
        found = dict(events)
        assert found.get(HIT if len(runs) == 2 else MISS, 0) >= 3
    assert found.get(MISS, 0) == 0
    assert any("advance_chains" in path.name for path in tmp_path.iterdir())
    np.testing.assert_array_equal(runs[0].draws["mu"], runs[1].draws["mu"])


def raise_inside(directory):
    with compilation_cache(directory):
        assert jax.config.jax_compilation_cache_dir == str(directory)
        raise KeyError


def test_the_settings_of_jax_hold_again(tmp_path):
    before = jax.config.jax_compilation_cache_dir
    with pytest.raises(KeyError):
        raise_inside(tmp_path)
    assert jax.config.jax_compilation_cache_dir == before
