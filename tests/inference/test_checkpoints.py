"""Runs with a folder: the bits of draws, what is compared, and what is said of damage."""

import errno
import itertools
import json
import os
import shutil
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference import HMC, MEADS, NUTS, mcmc
from inference.chains import chain_threads, sampling, step_run
from inference.chains.recorder import KeptSites
from inference.checkpoints import disk_recorder, draw_files, state_writer
from inference.checkpoints.run_folder import RunFolder
from inference.monitoring.monitor import RunMonitor
from tests.inference.regression import Y, design, posterior
from tests.inference.test_own_kernels import RandomWalk

KEY = jax.random.key(2)
SETTINGS = {"num_warmup": 90, "num_draws": 60, "num_chains": 2}
LONG = SETTINGS | {"num_draws": 5000}
KERNELS = {
    "nuts": {"num_chains": 2},
    "pooled": {"num_chains": 32},
    "hmc": {"kernel": HMC(), "mass_matrix": "diagonal"},
    "own": {"kernel": RandomWalk(scale=0.1), "num_draws": 20_000},
    "ensemble": {"kernel": MEADS(), "num_chains": 64, "num_draws": 1000},
}


def scoped(key, design):
    """The regression with sites in a scope and a deterministic one."""
    w = ppl.nest(
        lambda key: ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="w"), scope="slopes"
    )(key)
    ppl.deterministic(jnp.exp(w[0]), name="odds")
    ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    return ppl.sample(key, dist.Normal(design @ w, 1.0), name="y")


def scoped_posterior():
    return ppl.condition(scoped, {"y": jnp.asarray(Y, jnp.result_type(float))})


def same(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


class KilledError(Exception):
    """End of a run at a moment of no choice."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a whole run."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    mcmc(KEY, posterior(), design(), checkpoint=folder, **SETTINGS)
    return folder


@pytest.fixture
def copied(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


@pytest.mark.quick_rows("nuts", "own")
@pytest.mark.parametrize("name", KERNELS)
def test_an_interrupted_run_ends_with_the_same_bits(monkeypatch, tmp_path, name):
    """However often it is interrupted, in warm-up too, with a state after every few calls."""
    settings = LONG | KERNELS[name]
    whole = mcmc(KEY, posterior(), design(), **settings)
    for module in (chain_threads, sampling, step_run):
        monkeypatch.setattr(module, "CALL_SECONDS", 1e-3)
    monkeypatch.setattr(state_writer, "RECORD_SECONDS", 2e-3)
    calls = itertools.count(1)
    dies = []

    def tell(*_):
        if next(calls) % 25 == 0 and len(dies) < 4:
            dies.append(True)
            raise KilledError

    monkeypatch.setattr(RunMonitor, "tell", tell)
    result = None
    while result is None:
        with suppress(KilledError):
            result = mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **settings)
    assert dies
    same(result, whole)


@pytest.mark.quick_rows("nuts", "own")
@pytest.mark.parametrize("name", KERNELS)
def test_more_draws_are_those_of_one_longer_run(tmp_path, name):
    settings = SETTINGS | KERNELS[name] | {"num_draws": 3000}
    first = mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **settings | {"num_draws": 50})
    kernel = settings.get("kernel", NUTS())
    more = inference.resume(tmp_path, posterior(), design(), num_draws=3000, kernel=kernel)
    same(more, mcmc(KEY, posterior(), design(), **settings))
    np.testing.assert_array_equal(first.draws["w"], more.draws["w"][:, :50])
    assert isinstance(more.draws["w"], np.memmap)


def test_the_interrupted_run_gives_what_it_has(monkeypatch, tmp_path):
    """And a resumed one the rest, from the state that the interrupt has recorded."""
    whole = mcmc(KEY, posterior(), design(), **LONG)

    def tell(_, run):
        if run.num_done >= 700:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        for module in (chain_threads, sampling):
            patched.setattr(module, "CALL_SECONDS", 1e-3)
        patched.setattr(RunMonitor, "tell", tell)
        with pytest.warns(RuntimeWarning, match="interrupted"):
            part = mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **LONG)
    number = part.draws["w"].shape[1]
    assert 0 < number < 5000
    np.testing.assert_array_equal(part.draws["w"], whole.draws["w"][:, :number])
    state = RunFolder(tmp_path)
    assert np.min(state.read_state()["num_drawn"]) >= number
    state.close()
    same(inference.resume(tmp_path, posterior(), design()), whole)


@pytest.mark.parametrize(
    ("settings", "kernel"), [({}, NUTS()), ({"num_draws": 200}, RandomWalk(scale=0.1))]
)
def test_only_some_sites_are_kept(tmp_path, settings, kernel):
    settings = SETTINGS | settings | {"kernel": kernel}
    whole = mcmc(KEY, scoped_posterior(), design(), **settings)
    for keep, names in ((["slopes", "odds"], {"slopes", "odds"}), ("slopes.w", {"slopes"})):
        part = mcmc(KEY, scoped_posterior(), design(), keep=keep, **settings)
        assert part.draws.keys() == names
        same(part.draws, {name: whole.draws[name] for name in names})
        same(part.stats, whole.stats)
        assert {site.partition(".")[0] for site, *_ in part.sites} == names
        part.summary()
    on_disk = mcmc(
        KEY, scoped_posterior(), design(), keep=["scale"], checkpoint=tmp_path, **settings
    )
    same(on_disk.draws, {"scale": whole.draws["scale"]})
    assert [x.name for x in tmp_path.glob("draws.*")] == ["draws.scale.npy"]


def test_values_of_other_sites_are_not_computed():
    target = ppl.unconstrain(scoped_posterior(), design())
    trace = lambda keep: str(  # noqa: E731
        jax.jit(KeptSites(target, keep).constrain)
        .lower({"slopes": {"w": jnp.zeros(3)}, "scale": jnp.zeros(())})
        .as_text()
    )
    assert trace(None).count("exponential") > trace(("slopes",)).count("exponential") == 0


@pytest.mark.parametrize(
    ("keep", "error", "match"),
    [
        ("w[2]", ValueError, r"keep: sites are kept as a whole: give 'w', not 'w\[2\]'"),
        (["w", "v"], ValueError, "keep: no site is called 'v'; there are w"),
        ([], ValueError, "expected names of sites, got none"),
        (3, TypeError, "keep must be names of sites"),
    ],
)
def test_unknown_names_to_keep_are_errors(keep, error, match):
    with pytest.raises(error, match=match):
        mcmc(KEY, posterior(), design(), keep=keep, **SETTINGS)


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
    "sites": ({"model": scoped_posterior()}, "sites: the run has"),
    "kernel": ({"kernel": NUTS(max_depth=5)}, "kernel: the run has 'NUTS"),
    "warm-up": ({"num_warmup": 91}, "num_warmup: the run has 90, the call 91"),
    "chains": ({"num_chains": 3}, "num_chains: the run has 2, the call 3"),
    "kept": ({"keep": ["w"]}, r"keep: the run has None, the call \['w'\]"),
    "starts": ({"init": "prior"}, "init: the run has 'uniform', the call 'prior'"),
    "matrix": ({"mass_matrix": "dense"}, "mass_matrix: the run has 'auto', the call 'dense'"),
    "rate": ({"target_acceptance_rate": 0.9}, "target_acceptance_rate: the run has 0.8"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_another_run_is_refused_and_said(run, name):
    given, match = MISMATCHES[name]
    given = {"key": KEY, "model": posterior(), "args": (design(),), **SETTINGS, **given}
    key, model, args = (given.pop(name) for name in ("key", "model", "args"))
    before = {x.name: x.read_bytes() for x in run.iterdir() if x.name != "lock"}
    with pytest.raises(ValueError, match=match):
        mcmc(key, model, *args, checkpoint=run, **given)
    assert before == {x.name: x.read_bytes() for x in run.iterdir() if x.name != "lock"}


def test_sites_kept_by_name_are_not_all(tmp_path):
    mcmc(KEY, posterior(), design(), keep=["w"], checkpoint=tmp_path, **SETTINGS)
    with pytest.raises(ValueError, match=r"keep: the run has \['w'\], the call None"):
        mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **SETTINGS)


def test_another_version_is_a_warning(copied):
    folder = RunFolder(copied)
    folder.write_manifest(folder.read_manifest() | {"jax": "0.1", "device": "1 x abacus"})
    folder.close()
    with pytest.warns(RuntimeWarning, match=r"written with other version of JAX, devices"):
        mcmc(KEY, posterior(), design(), checkpoint=copied, **SETTINGS)


def spoil(path, how):
    content = bytearray(path.read_bytes())
    if how == "truncated":
        content = content[: len(content) // 2]
    elif how == "emptied":
        content = bytearray()
    else:
        place = {"first": 0, "middle": len(content) // 2, "last": len(content) - 1}[how]
        content[place] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["truncated", "emptied", "first", "middle", "last"])
def test_each_damaged_file_is_named(copied, how):
    files = sorted(x for x in copied.iterdir() if x.name != "lock")
    assert len(files) > 8
    for path in files:
        kept = path.read_bytes()
        spoil(path, how)
        if path.read_bytes() == kept:
            continue
        with pytest.raises(ValueError, match=f"{path.name} in checkpoint=.* is damaged"):
            mcmc(KEY, posterior(), design(), checkpoint=copied, **SETTINGS)
        path.write_bytes(kept)
    for path in files:
        if path.suffix == ".npy":
            path.rename(kept := path.with_suffix(".gone"))
            with pytest.raises(ValueError, match=f"{path.name} .* is damaged: it is missing"):
                mcmc(KEY, posterior(), design(), checkpoint=copied, **SETTINGS)
            kept.rename(path)
    mcmc(KEY, posterior(), design(), checkpoint=copied, **SETTINGS)


@pytest.mark.parametrize("what", ["manifest", "all but the manifest"])
def test_files_of_another_run_are_refused(copied, tmp_path, what):
    """They agree with each other, and with the call but for the key in the manifest."""
    other = tmp_path / "other"
    mcmc(jax.random.key(3), posterior(), design(), checkpoint=other, **SETTINGS)
    for path in other.iterdir():
        if (path.name == "manifest.json") == (what == "manifest") and path.name != "lock":
            shutil.copy(path, copied / path.name)
    key = jax.random.key(3) if what == "manifest" else KEY
    for call in (mcmc, lambda _, *x, **__: inference.resume(copied, *x)):
        with pytest.raises(ValueError, match=r"state.npz .* it is of another run than manifest"):
            call(key, posterior(), design(), checkpoint=copied, **SETTINGS)


def test_folders_of_something_else_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"is not the folder of a run: it has \['notes.txt'\]"):
        mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **SETTINGS)
    with pytest.raises(ValueError, match="is a file; give the path of a folder"):
        mcmc(KEY, posterior(), design(), checkpoint=tmp_path / "notes.txt", **SETTINGS)
    with pytest.raises(TypeError, match="checkpoint must be the path of a folder, got 3"):
        mcmc(KEY, posterior(), design(), checkpoint=3, **SETTINGS)  # pyright: ignore
    with pytest.raises(ValueError, match="has no run; begin one with"):
        inference.resume(tmp_path / "empty", posterior(), design())
    assert not (tmp_path / "empty").exists()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "manifest.json.partial").write_text("{")  # of a run killed at its start
    mcmc(KEY, posterior(), design(), checkpoint=tmp_path / "new", **SETTINGS)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("holds", "advice"),
    [
        ("MCMCResult", r"inference.resume\(inference.MCMCResult.load\(file\), model"),
        ("SVIResult", r"svi\(..., state=inference.SVIResult.load\(file\).state\)"),
        ("other", r"which may be new\.$"),
    ],
)
def test_a_saved_result_in_place_of_a_folder_says_how_it_goes_on(tmp_path, holds, advice):
    path, structure = tmp_path / "saved.npz", {"format": 1, "result": holds, "fields": {}}
    np.savez(path, structure=np.array(json.dumps(structure)))
    for call in (mcmc, inference.svi):
        with pytest.raises(ValueError, match="give the path of a folder.*" + advice):
            call(KEY, posterior(), design(), checkpoint=path)


def test_resume_refuses_fits_in_words(tmp_path):
    fit = inference.svi(KEY, posterior(), design(), checkpoint=tmp_path, num_steps=5)
    with pytest.raises(ValueError, match="has a run of svi: call "):
        inference.resume(tmp_path, posterior(), design(), num_steps=10)  # pyright: ignore
    with pytest.raises(TypeError, match=r"got SVIResult; a fit goes on by inference.svi\("):
        inference.resume(fit, posterior(), design())  # pyright: ignore


def test_two_runs_do_not_share_a_folder(copied):
    folder = RunFolder(copied)
    with pytest.raises(ValueError, match=f"is in use by process {os.getpid()}"):
        mcmc(KEY, posterior(), design(), checkpoint=copied, **SETTINGS)
    folder.close()
    mcmc(KEY, posterior(), design(), checkpoint=copied, **SETTINGS)


def full(*_, number=errno.ENOSPC):
    raise OSError(number, "no space")


def test_a_folder_that_cannot_be_written_is_told_first(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"checkpoint=.* cannot be written.*; give a folder in which"):
        mcmc(KEY, posterior(), design(), checkpoint=tmp_path / "new", **SETTINGS)


def test_a_file_that_is_too_large_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "ftruncate", lambda *_: full(number=errno.EFBIG))
    with pytest.raises(
        OSError, match=r"the file draws\.w\.npy of .* bytes: File too large; .*ulimit"
    ):
        mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **SETTINGS)


@pytest.mark.parametrize("is_mended", [False, True])
def test_a_full_disk_loses_no_draws(monkeypatch, tmp_path, is_mended):
    """They stay in memory, and are written once there is room."""
    whole = mcmc(KEY, posterior(), design(), **LONG)
    monkeypatch.setattr(state_writer, "RECORD_SECONDS", 0.0 if is_mended else 15.0)
    write, calls = draw_files._write, itertools.count()

    def failing(file, content, place):
        fails = next(calls) % 3 == 0 if is_mended else place > 256
        return full() if fails and place else write(file, content, place)

    with monkeypatch.context() as patched:
        patched.setattr(draw_files, "_write", failing)
        if not is_mended:  # holes of a full disk in memory cannot be read through maps
            patched.setattr(np, "memmap", None)
        with pytest.warns(RuntimeWarning) as told:
            result = mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **LONG)
    words = [str(x.message) for x in told]
    assert "cannot be written: No space left on device" in words[0]
    assert is_mended or ("has not the end of the run" in words[1] and len(words) == 2)
    same(result, whole)
    same(mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **LONG), whole)


def test_little_room_is_told_at_the_start(monkeypatch, tmp_path):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(disk_recorder.shutil, "disk_usage", lambda _: usage)
    with pytest.warns(RuntimeWarning, match="all draws need .* GB more, and 1e-06 GB are free"):
        mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **SETTINGS)
    until = inference.Until(ess=10)  # which needs few of the draws for which there is no room
    mcmc(KEY, posterior(), design(), checkpoint=tmp_path / "until", until=until, num_warmup=90)
