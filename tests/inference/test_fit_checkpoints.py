"""Fits with a folder: the bits after an end at any moment, what is compared, what is refused."""

import shutil
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import inference
import ppl
from inference import ELBO, FullRank, MeanField, mcmc, svi
from inference.checkpoints import state_writer
from inference.checkpoints.disk_recorder import DiskRecorder
from inference.checkpoints.fit_folder import FitFolder
from inference.checkpoints.run_folder import RunFolder
from inference.drivers.run_description import describe_argument, describe_init, describe_object
from tests.inference.regression import Y, design, posterior
from tests.inference.test_checkpoints import KilledError, full, spoil
from tests.inference.test_killed_runs import start
from tests.inference.test_own_kernels import RandomWalk

KEY = jax.random.key(2)
SETTINGS = {"num_steps": 250, "num_draws": 64, "optimizer": optax.adam(0.02)}


def guide(key, design):
    loc = ppl.param(jnp.zeros(3), name="loc")
    ppl.sample(key, dist.Normal(loc, ppl.param(jnp.ones(3), name="scale") ** 2), name="w")


def with_noise(key, design):
    """The regression with a parameter of its own."""
    w = ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="w")
    shift = ppl.param(jnp.zeros(()), name="shift")
    return ppl.sample(key, dist.Normal(design @ w + shift, 1.0), name="y")


def batch(key, design):
    return (design + 0.1 * jax.random.normal(key, design.shape),)


def same(one, two):
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(words(a), words(b)), one, two)


def words(x):
    is_key = jnp.issubdtype(getattr(x, "dtype", float), jax.dtypes.prng_key)
    return jax.random.key_data(x) if is_key else x


def fit(model=None, args=None, **given):
    model = posterior() if model is None else model
    return svi(given.pop("key", KEY), model, *(args or (design(),)), **SETTINGS | given)


NOISY = optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(3)), optax.adam(0.02))
FITS = {
    "plain": {},
    "noise": {"optimizer": NOISY, "guide": FullRank()},
    "function": {"guide": guide, "batch": batch},
    "parameter": {
        "model": ppl.condition(with_noise, {"y": jnp.asarray(Y, jnp.float32)}),
        "tolerance": 0.05,
        "num_steps": 4000,
    },
    "fed": {"batches": [(design() + i,) for i in range(7)]},
}


@pytest.mark.quick_rows("function", "fed")
@pytest.mark.parametrize("name", FITS)
def test_a_fit_that_often_ends_early_has_the_same_bits(monkeypatch, tmp_path, name):
    """The callback is called where it is without a folder, but for what it was told already."""
    told = {"whole": [], "parts": []}
    call = lambda kind: {"callback": lambda *x: told[kind].append((x[0], x[1]))}  # noqa: E731
    whole = fit(**FITS[name], **call("whole"))
    record, ends = FitFolder.record, []

    def die(self, *state, is_last, is_ended):
        record(self, *state, is_last=True, is_ended=is_ended)
        if not is_last and len(ends) < 4:
            ends.append(int(state[0].step))
            raise KilledError

    monkeypatch.setattr(FitFolder, "record", die)
    result = None
    while result is None:
        with suppress(KilledError):
            result = fit(**FITS[name], checkpoint=tmp_path, **call("parts"))
    assert len(set(ends)) == 4
    same(result, whole)
    assert told["parts"] == told["whole"]
    same(fit(**FITS[name], checkpoint=tmp_path), whole)


def test_more_steps_are_those_of_one_longer_fit(tmp_path):
    begun = fit(num_steps=30)
    for number in (60, 250):
        more = fit(num_steps=number, state=begun.state, checkpoint=tmp_path)
        same(more, fit(num_steps=number, state=begun.state))
    with pytest.raises(ValueError, match=r"after 250 steps, and none after num_steps=249"):
        fit(num_steps=249, state=begun.state, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="state: the run has"):
        fit(checkpoint=tmp_path)


def test_an_interrupted_fit_gives_what_it_has(tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="the result is that of 100 steps of 250"):
        part = fit(checkpoint=tmp_path, callback=interrupt)
    same(part, fit(num_steps=100))
    same(fit(checkpoint=tmp_path), fit())


def test_a_fit_that_its_callback_has_ended_stays_so(tmp_path):
    ended = fit(checkpoint=tmp_path, callback=lambda *_: True)
    assert len(ended.elbos) == 100
    same(fit(checkpoint=tmp_path, callback=lambda *_: 1 / 0), ended)


def test_a_fit_that_fails_fails_again(tmp_path):
    batches = [(design(),)] * 5 + [(design() + np.nan,)]
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="svi stopped at step 5"):
            result = fit(batches=batches, checkpoint=tmp_path)
        assert result.elbos.shape == (5,)


def test_a_failed_fit_is_none_that_its_callback_ended(tmp_path):
    batches = [(design(),)] * 5 + [(design() + np.nan,)]
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="svi stopped at step 5"):
            assert fit(batches=batches, checkpoint=tmp_path, callback=lambda *_: True).failure


@pytest.mark.parametrize("given", [{}, {"batches": [(design(),)]}])
def test_a_settled_fit_stays_so(tmp_path, given):
    given = given | {"tolerance": 0.5, "num_steps": 2000, "checkpoint": tmp_path}
    settled = fit(**given)
    assert len(settled.elbos) < 2000
    for number in (2000, 2000, 3000):
        same(fit(**given | {"num_steps": number}), settled)


def test_an_end_that_the_disk_has_no_room_for_is_told(monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "write_state", full)
        with pytest.warns(RuntimeWarning) as told:
            whole = fit(num_steps=60, checkpoint=tmp_path)
    words = [str(x.message) for x in told]
    assert [" cannot be written: No space" in words[0], "has not the end" in words[1]] == [True] * 2
    assert len(words) == 2
    same(fit(num_steps=60, checkpoint=tmp_path), whole)


def test_making_a_state_counts_as_recording(monkeypatch, tmp_path):
    clock = [100.0]
    monkeypatch.setattr(state_writer.time, "monotonic", lambda: clock[0])
    recorder = DiskRecorder(RunFolder(tmp_path), None)

    def state():
        clock[0] += 10.0
        return {}

    assert recorder.is_due
    recorder.record(state)
    clock[0] += 400.0
    assert not recorder.is_due
    clock[0] += 101.0
    assert recorder.is_due
    recorder.close()


def test_another_version_is_told_each_time(tmp_path):
    """The folder has the versions of its first steps, whatever goes on with it."""
    fit(num_steps=30, checkpoint=tmp_path)
    folder = RunFolder(tmp_path)
    folder.write_manifest(folder.read_manifest() | {"jax": "0.1"})
    folder.close()
    for number in (60, 60):
        with pytest.warns(RuntimeWarning, match=r"written with other version of JAX"):
            fit(num_steps=number, checkpoint=tmp_path)


def test_a_folder_of_another_format_is_told(tmp_path):
    fit(num_steps=30, checkpoint=tmp_path)
    folder = RunFolder(tmp_path)
    manifest = folder.read_manifest() | {"format": 1}
    del manifest["driver"]
    folder.write_manifest(manifest)
    folder.close()
    with pytest.raises(ValueError, match="has format 1, expected 3: another version"):
        fit(num_steps=30, checkpoint=tmp_path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a whole fit."""
    folder = tmp_path_factory.mktemp("fits") / "run"
    fit(checkpoint=folder, batches=[(design(),)])
    return folder


def other_guide(key, design):
    loc = ppl.param(jnp.zeros(3), name="loc")
    ppl.sample(key, dist.Normal(loc, ppl.param(jnp.ones(3), name="scale") ** 4), name="w")


def other_prior(key, design):
    w = ppl.sample(key, dist.Normal(jnp.zeros(3), 3.0), name="w")
    return ppl.sample(key, dist.Normal(design @ w, 1.0), name="y")


MISMATCHES = {
    "key": ({"key": jax.random.key(3)}, "key: the run has"),
    "data": ({"model": posterior(2 * Y)}, r"data 0 of the model \(y\): the run has float"),
    "argument": ({"args": (design() + 1,)}, r"argument 0 \(design\): the run has float"),
    "model": (
        {"model": ppl.condition(other_prior, {"y": jnp.asarray(Y, jnp.float32)})},
        "the model's program: the run has",
    ),
    "guide": ({"guide": MeanField(init_scale=0.2)}, r"guide: the run has 'MeanField\(init"),
    "objective": ({"objective": ELBO(True)}, "objective: the run has 'ELBO"),
    "optimizer": ({"optimizer": optax.adam(0.03)}, "the optimizer's program: the run has"),
    "schedule": (
        {"optimizer": optax.adam(optax.cosine_decay_schedule(0.02, 100))},
        "the optimizer's program: the run has",
    ),
    "particles": ({"num_particles": 2}, "num_particles: the run has 1, the call 2"),
    "tolerance": ({"tolerance": 0.1}, "tolerance: the run has None, the call 0.1"),
    "start": ({"init": "prior"}, "init: the run has 'uniform', the call 'prior'"),
    "batches": ({"batches": None}, "has_batches: the run has True, the call False"),
    "order": ({"batches": [(design() + 1,), (design(),)]}, "first batch: the run has one"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_another_fit_is_refused_and_said(run, name):
    given, match = MISMATCHES[name]
    before = {x.name: x.read_bytes() for x in run.iterdir() if x.name != "lock"}
    with pytest.raises(ValueError, match=match) as refused:
        fit(checkpoint=run, **{"batches": [(design(),)]} | given)
    assert "the step's program" not in str(refused.value)
    assert before == {x.name: x.read_bytes() for x in run.iterdir() if x.name != "lock"}


def test_code_that_is_a_function_is_compared(tmp_path):
    fit(guide=guide, batch=batch, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="the guide's program: the run has"):
        fit(guide=other_guide, batch=batch, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="differ:\n  the step's program: the run has"):
        fit(guide=guide, batch=lambda key, design: (design,), checkpoint=tmp_path)


def test_each_damaged_file_of_a_fit_is_named(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "copy")
    for name in ("manifest.json", "state.npz"):
        kept = (folder / name).read_bytes()
        for how in ("truncated", "emptied", "first", "middle", "last"):
            spoil(folder / name, how)
            with pytest.raises(ValueError, match=f"{name} in checkpoint=.* is damaged") as damage:
                fit(batches=[(design(),)], checkpoint=folder)
            assert "files of draws" not in str(damage.value)
            (folder / name).write_bytes(kept)
    (folder / "state.npz").unlink()  # a fit that was killed before its first state begins anew
    again = fit(batches=[(design(),)], checkpoint=folder)
    same(again, fit(batches=[(design(),)]))


def test_batches_must_start_again(tmp_path):
    with pytest.raises(TypeError, match="checkpoint needs batches that can start again"):
        fit(batches=iter([(design(),)]), checkpoint=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_of_one_driver(run, tmp_path):
    with pytest.raises(ValueError, match="is the folder of a run of svi, not of mcmc"):
        mcmc(KEY, posterior(), design(), checkpoint=run)
    with pytest.raises(ValueError, match=r"has a run of svi: call inference\.svi again"):
        inference.resume(run, posterior(), design())
    mcmc(KEY, posterior(), design(), num_warmup=10, num_draws=10, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="is the folder of a run of mcmc, not of svi"):
        fit(checkpoint=tmp_path)
    folder = RunFolder(run)
    with pytest.raises(ValueError, match="is in use by process"):
        fit(batches=[(design(),)], checkpoint=run)
    folder.close()


def test_the_state_of_another_fit_is_refused(run, tmp_path):
    fit(key=jax.random.key(7), num_steps=30, checkpoint=tmp_path)
    shutil.copy(run / "state.npz", tmp_path / "state.npz")
    with pytest.raises(ValueError, match=r"state.npz .* it is of another run than manifest.json"):
        fit(key=jax.random.key(7), num_steps=30, checkpoint=tmp_path)


def test_arrays_of_all_dtypes_are_kept(tmp_path):
    dtypes = ("bfloat16", "float8_e4m3fn", "float16", "int32", "uint32", "bool", "complex64")
    state = {x: jnp.ones(2, x) for x in dtypes} | {"key": jax.random.key(1), "no": jnp.zeros(0)}
    fits = FitFolder(RunFolder(tmp_path))
    fits.folder.write_manifest({})
    fits.record(state, [np.ones(3)], is_last=True, is_ended=True)
    found = fits.read(jax.eval_shape(lambda: state))
    assert found is not None
    same(found, (state, np.ones(3), np.bool_(True)))
    assert {name: x.dtype for name, x in found[0].items()} == {
        name: x.dtype for name, x in state.items()
    }
    with pytest.raises(ValueError, match="does not fit this run at float16: expected float32"):
        fits.read(jax.eval_shape(lambda: state | {"float16": jnp.zeros(2)}))
    fits.close()


def new_guide():
    """A guide of the same code at another address, such as another process has."""

    def guide(key, design):
        loc = ppl.param(jnp.zeros(3), name="loc")
        ppl.sample(key, dist.Normal(loc, ppl.param(jnp.ones(3), name="scale") ** 2), name="w")

    return guide


class Objective(ELBO):
    """An objective that is no pytree and has no text of its own."""

    __repr__ = object.__repr__


def test_code_is_the_same_at_another_address():
    for make in (new_guide, Objective, lambda: {"w": [new_guide()]}, RandomWalk):
        one, two = make(), make()
        assert describe_object(one) == describe_object(two)
        assert describe_argument(one) == describe_argument(two)
    assert describe_object(guide) != describe_object(other_guide)
    kernels = [RandomWalk(scale=lambda x, step=step: step * x) for step in (1.0, 1.0, 2.0)]
    first, same, other = map(describe_object, kernels)
    assert first == same != other
    with pytest.raises(TypeError, match="dtype object cannot be compared with that of another"):
        describe_object(np.array([new_guide()]))


@pytest.mark.parametrize("name", ["state", "init"])
def test_a_fit_from_a_loaded_result_is_the_same(tmp_path, name):
    begun = fit(num_steps=30)
    begun.save(tmp_path / "begun.npz")
    loaded = inference.SVIResult.load(tmp_path / "begun.npz")
    given = {"checkpoint": tmp_path / "run", "num_steps": 30}
    whole = fit(**given, **{name: begun.state if name == "state" else begun})
    same(fit(**given, **{name: loaded.state if name == "state" else loaded}), whole)
    other = fit(num_steps=31)
    with pytest.raises(ValueError, match=f"{name}: the run has"):
        fit(**given, **{name: other.state if name == "state" else other})
    assert describe_init({"a": 1.0, "b": 2.0}) != describe_init({"b": 1.0, "c": 2.0})


def test_a_fit_of_a_guide_function_goes_on_elsewhere(tmp_path):
    begun, whole = new_guide(), fit(guide=new_guide(), num_steps=60)
    fit(guide=begun, num_steps=30, checkpoint=tmp_path)
    elbos = fit(guide=new_guide(), num_steps=60, checkpoint=tmp_path).elbos
    np.testing.assert_array_equal(elbos, whole.elbos)


@pytest.mark.slow
def test_a_fit_of_a_guide_function_goes_on_in_a_process(tmp_path):
    program = (
        "import sys; from tests.inference.test_fit_checkpoints import fit, guide\n"
        "print(fit(guide=guide, num_steps=int(sys.argv[1]), checkpoint=sys.argv[2]).elbos.shape)"
    )
    for number in ("30", "60"):
        process = start(program, number, str(tmp_path), "", "", 1)
        found, error = process.communicate()
        assert found == f"({number},)\n", error
