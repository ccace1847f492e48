"""Runs in processes of their own, killed at random moments, end with the bits of others."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = """
import sys, jax, numpy as np, inference
from inference.chains import chain_threads, sampling
from inference.checkpoints import state_writer
from tests.inference.regression import design, posterior
chain_threads.CALL_SECONDS = sampling.CALL_SECONDS = 0.01
state_writer.RECORD_SECONDS = 0.02
mesh = jax.make_mesh((8,), ("device",)) if len(jax.devices()) == 8 else None
result = inference.mcmc(
    jax.random.key(2), posterior(), design(), mesh=mesh, num_warmup=300, num_draws=int(sys.argv[3]),
    num_chains=8, checkpoint=sys.argv[1] or None, cache_dir=sys.argv[2])
print("whole", *(float(np.sum(x, dtype=np.float64)).hex() for x in jax.tree.leaves(result)))
np.save(sys.argv[4], result.draws["w"])
"""

FIT = """
import sys, jax, numpy as np, inference
from inference.checkpoints import state_writer
from tests.inference.regression import design, posterior
state_writer.RECORD_SECONDS = 0.02
result = inference.svi(
    jax.random.key(2), posterior(), design(), guide=inference.FullRank(),
    num_steps=int(sys.argv[3]), checkpoint=sys.argv[1] or None, cache_dir=sys.argv[2])
print("whole", *(float(np.sum(x, dtype=np.float64)).hex() for x in jax.tree.leaves(result)))
np.save(sys.argv[4], result.elbos)
"""

PARTICLES = """
import sys, jax, numpy as np, inference
from inference.checkpoints import state_writer
from tests.inference.regression import design, posterior
state_writer.RECORD_SECONDS = 0.02
result = inference.smc(
    jax.random.key(2), posterior(), design(), num_particles=int(sys.argv[3]),
    kernel=inference.RandomWalk(num_steps=20), ess_fraction=0.9,
    checkpoint=sys.argv[1] or None, cache_dir=sys.argv[2])
print("whole", *(float(np.sum(x, dtype=np.float64)).hex() for x in jax.tree.leaves(result)))
np.save(sys.argv[4], result.draws["w"])
"""

EACH = """
import sys, jax, jax.numpy as jnp, numpy as np, inference
from tests.inference.regression import design, posterior
designs = jnp.linspace(0.5, 2.0, int(sys.argv[3]))[:, None, None] * design()
result = inference.mcmc_each(
    jax.random.key(2), posterior(), designs, num_chains=2, num_draws=4000,
    checkpoint=sys.argv[1] or None)
print("whole", *(float(np.sum(x, dtype=np.float64)).hex() for x in jax.tree.leaves(result)))
np.save(sys.argv[4], result.draws["w"])
"""


SIMULATIONS = """
import sys, jax, numpy as np, distributions as dist, inference, ppl
def model(key, x):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    ppl.sample(key, dist.Normal(mu * x, 1.0), name="y")
result = inference.calibrate(
    jax.random.key(2), model, np.ones(3, np.float32), observed=["y"],
    num_simulations=int(sys.argv[3]), num_chains=2, num_draws=4000, checkpoint=sys.argv[1] or None)
print("whole", *(float(np.sum(x, dtype=np.float64)).hex() for x in (result.ranks,)))
np.save(sys.argv[4], result.ranks)
"""


def start(program, folder, cache, number, out, num_devices):
    flags = f"--xla_force_host_platform_device_count={num_devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", program, folder, cache, str(number), out],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_often(tmp_path, num_kills, number, num_devices=1, program=PROGRAM):
    """Number of kills that came before the end, and of those before any state was recorded."""
    files = [str(tmp_path / name) for name in ("cache", "whole.npy", "part.npy", "run")]
    cache, whole, part, folder = files
    expected, error = start(program, "", cache, number, whole, num_devices).communicate()
    assert expected, error
    random.seed(0)
    kills = 0
    for _ in range(num_kills):
        process = start(program, folder, cache, number, part, num_devices)
        began = time.time()

        def has_recorded(began=began):
            files = [*(tmp_path / "run").glob("state.npz"), *(tmp_path / "run").glob("jobs.*.npz")]
            return any(x.stat().st_mtime > began for x in files)

        while process.poll() is None and not (has_recorded() and random.random() < 0.1):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    found, error = start(program, folder, cache, number, part, num_devices).communicate()
    assert found == expected, error
    np.testing.assert_array_equal(np.load(whole), np.load(part))
    return kills


@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [1, 8])
def test_a_run_killed_twice_ends_with_the_same_bits(tmp_path, num_devices):
    assert kill_often(tmp_path, 2, 20_000, num_devices) == 2


@pytest.mark.slow
def test_a_fit_killed_twice_ends_with_the_same_bits(tmp_path):
    assert kill_often(tmp_path, 2, 1_000_000, program=FIT) == 2


@pytest.mark.slow
def test_particles_killed_twice_end_with_the_same_bits(tmp_path):
    assert kill_often(tmp_path, 2, 32_000, program=PARTICLES) == 2


@pytest.mark.slow
def test_fits_to_data_sets_killed_twice_end_with_the_same_bits(tmp_path):
    assert kill_often(tmp_path, 2, 60, program=EACH) == 2


@pytest.mark.slow
def test_a_calibration_killed_twice_ends_with_the_same_bits(tmp_path):
    assert kill_often(tmp_path, 2, 60, program=SIMULATIONS) == 2


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_fit_killed_fifty_times_ends_with_the_same_bits(tmp_path):
    assert kill_often(tmp_path, 50, 2_000_000, program=FIT) > 40


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [1, 8])
def test_a_run_killed_fifty_times_ends_with_the_same_bits(tmp_path, num_devices):
    assert kill_often(tmp_path, 50, 200_000, num_devices) > 40
