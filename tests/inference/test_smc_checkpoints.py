"""Runs of smc with a folder: the bits after an end at any moment, what is compared and refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

import distributions as dist
import inference
import ppl
from inference import HMC, RandomWalk, smc
from inference.checkpoints.run_folder import RunFolder
from inference.checkpoints.state_writer import StateWriter
from inference.drivers.smc_checkpoints import PopulationFolder
from tests.inference.test_checkpoints import KilledError, full, spoil
from tests.inference.test_own_kernels import RandomWalk as Metropolis
from tests.inference.test_own_kernels import kernel

Y = np.linspace(-3.0, 5.0, 12).astype(np.float32)
SETTINGS = {"num_particles": 64, "kernel": HMC(num_steps=2)}


def line(key, x, width=1.0):
    slope = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="slope")
    return ppl.sample(key, dist.Normal(slope[0] + slope[1] * x, width), name="y")


def flat(key, x):
    slope = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="slope")
    return ppl.sample(key, dist.Normal(slope[0] + 0 * x, 1.0), name="y")


def of_rows(number=12, model=line, y=Y):
    return ppl.condition(model, {"y": jnp.asarray(y[:number])})


def x_of(number=12):
    return jnp.linspace(-1.0, 1.0, 12)[:number]


def go(seed=0, model=None, x=None, **given):
    model = of_rows() if model is None else model
    return smc(key(seed), model, x_of() if x is None else x, **SETTINGS | given)


@pytest.fixture(scope="module")
def early():
    return inference.mcmc(
        key(7), of_rows(6), x_of(6), num_chains=4, num_warmup=100, num_draws=100, progress=False
    )


PATHS = {
    "likelihood": {},
    "data": {"path": "data", "batch_size": 3},
    "models": {"path": [of_rows(model=flat)], "kernel": RandomWalk()},
    "init": {"batch_size": 2, "ess_fraction": 0.9},
}


def same(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)
    assert jax.tree.structure(one) == jax.tree.structure(two)  # also the note


def num_recorded(folder):
    with np.load(folder / "state.npz") as state:
        return len(state["steps.place"])


@pytest.mark.quick_rows("data", "init")
@pytest.mark.parametrize("path", PATHS)
def test_a_run_that_ends_early_goes_on_to_the_same_bits(monkeypatch, tmp_path, path, early):
    """An interrupt at a step that is not due to be written; then a kill, which writes no more."""
    given = {**PATHS[path], **({"init": early} if path == "init" else {})}
    whole = go(**given)
    assert len(whole.steps["place"]) >= 4

    def interrupt(report):
        if report.phase == "step 2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(**given, checkpoint=tmp_path, progress=interrupt)
    assert num_recorded(tmp_path) == 2
    record, ends = PopulationFolder.record, []

    def die(self, population, note):
        record(self, population, note)
        ends.append(len(population.steps))
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(PopulationFolder, "record", die)
        patched.setattr(StateWriter, "is_due", property(lambda self: True))
        with pytest.raises(KilledError):
            go(**given, checkpoint=tmp_path)
    assert num_recorded(tmp_path) == 3
    same(go(**given, checkpoint=tmp_path), whole)
    monkeypatch.setattr(PopulationFolder, "record", die)
    same(go(**given, checkpoint=tmp_path), whole)  # at its end, no step is taken
    assert ends == [3]


def test_a_run_without_any_particles_on_disk_begins_anew(monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "write_state", full)
        with pytest.warns(RuntimeWarning) as told:
            whole = go(checkpoint=tmp_path)
    words = [str(x.message) for x in told]
    assert [" cannot be written: No space" in words[0], "has not the end" in words[1]] == [True] * 2
    assert not (tmp_path / "state.npz").exists()
    same(go(checkpoint=tmp_path), whole)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a whole run."""
    folder = tmp_path_factory.mktemp("particles") / "run"
    go(checkpoint=folder)
    return folder


OTHERS = {
    "key": ({"seed": 1}, "key: the run has"),
    "data": ({"model": of_rows(y=2 * Y)}, r"data 0 of the model \(y\): the run has float"),
    "argument": ({"x": x_of() + 1}, r"argument 0 \(x\): the run has float32\[12\] of hash"),
    "model": ({"model": of_rows(model=flat)}, "the model's program: the run has"),
    "particles": ({"num_particles": 32}, "num_particles: the run has 64, the call 32"),
    "length": ({"chain_length": 8}, "chain_length: the run has 16, the call 8"),
    "share": ({"ess_fraction": 0.4}, "ess_fraction: the run has 0.5, the call 0.4"),
    "kernel": ({"kernel": HMC(num_steps=3)}, r"kernel: the run has 'HMC\("),
    "path": ({"path": "data"}, "path: the run has 'likelihood', the call 'data'"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_run_is_refused_and_said(run, name):
    given, words = OTHERS[name]
    before = {x.name: x.read_bytes() for x in run.iterdir() if x.name != "lock"}
    with pytest.raises(ValueError, match=f"is the folder of another run(.|\n)*{words}") as refused:
        go(**given, checkpoint=run)
    assert "the step's program" not in str(refused.value)
    assert before == {x.name: x.read_bytes() for x in run.iterdir() if x.name != "lock"}


@pytest.mark.slow
def test_paths_and_starts_are_compared(tmp_path, early):
    go(**PATHS["models"], checkpoint=tmp_path / "models")
    for other, words in (
        ([of_rows(model=flat, y=2 * Y)], "data of the models of path: the run has"),
        ([of_rows()], "path's program: the run has"),
        ([of_rows(model=flat)] * 2, 'path: the run has "1 of one\'s own", the call "2 of'),
    ):
        with pytest.raises(ValueError, match=words):
            go(**PATHS["models"] | {"path": other}, checkpoint=tmp_path / "models")
    go(init=early, checkpoint=tmp_path / "init")
    with pytest.raises(ValueError, match=r"init: the run has '.*', the call None"):
        go(path="data", checkpoint=tmp_path / "init")
    with pytest.raises(ValueError, match=r"init: the run has '.*', the call '"):
        go(init=go(model=of_rows(6), x=x_of(6)), checkpoint=tmp_path / "init")


def walk_by(number):
    """A random walk of one's own, whose code is the only difference from another."""

    @kernel
    class Walk(Metropolis):
        def step(self, key, state):
            return super().step(jax.random.fold_in(key, number), state)

    return Walk()


def test_code_of_a_kernel_is_compared(tmp_path):
    go(kernel=walk_by(0), checkpoint=tmp_path)
    go(kernel=walk_by(0), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="differ:\n  the step's program: the run has"):
        go(kernel=walk_by(1), checkpoint=tmp_path)


def test_damage_other_drivers_and_other_files_are_told(run, tmp_path):
    for name in ("manifest.json", "state.npz"):
        kept = (run / name).read_bytes()
        for how in ("truncated", "middle"):
            spoil(run / name, how)
            with pytest.raises(ValueError, match=f"{name} in checkpoint=.* is damaged"):
                go(checkpoint=run)
        (run / name).write_bytes(kept)
    with pytest.raises(ValueError, match="is the folder of a run of smc, not of svi"):
        inference.svi(key(0), of_rows(), x_of(), checkpoint=run)
    with pytest.raises(
        ValueError, match=r"has a run of smc, not of chains: call inference\.smc again"
    ):
        inference.resume(run, of_rows(), x_of())
    with pytest.raises(TypeError, match="checkpoint must be the path of a folder, got 3"):
        go(checkpoint=3)
    result = go(checkpoint=run)
    result.save(tmp_path / "particles.npz")
    with pytest.raises(ValueError, match=r"holds a result of smc.*\.update\(key, model"):
        go(checkpoint=tmp_path / "particles.npz")
