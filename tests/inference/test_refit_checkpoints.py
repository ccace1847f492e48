"""Folders of cross_validate and of loo's refits: the same bits after an interrupt, or refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference.drivers import folds
from tests.inference.test_executors import (
    FEW,
    POSTERIOR,
    SEED,
    SIZE,
    Pickling,
    Y,
    cross_validate,
    model,
)


def heavy(key, scale):
    mu = ppl.sample(key, dist.StudentT(4.0, 0.0, 3.0), name="mu")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(SIZE), scale), name="y")


@pytest.fixture
def begun(monkeypatch):
    """Keys of the fits that are begun."""
    found = []
    sample = folds.sample
    monkeypatch.setattr(folds, "sample", lambda *a, **b: found.append(a[0]) or sample(*a, **b))
    return found


def interrupt(news):
    if news.num_done == 2:
        raise KeyboardInterrupt


def same(one, two):
    np.testing.assert_array_equal(one.pointwise, two.pointwise)
    assert one.problems == two.problems
    assert one.p == two.p


@pytest.fixture(scope="module")
def alone():
    return cross_validate()


@pytest.mark.parametrize("executor", [None, Pickling()])
def test_finished_folds_are_not_fitted_again(alone, begun, tmp_path, executor):
    with pytest.raises(KeyboardInterrupt):
        cross_validate(executor, checkpoint=tmp_path, progress=interrupt)
    begun.clear()
    same(cross_validate(None, checkpoint=tmp_path), alone)
    assert len(begun) == 1
    same(cross_validate(executor, checkpoint=tmp_path), alone)
    assert len(begun) == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("folds")
    with pytest.raises(KeyboardInterrupt):
        cross_validate(checkpoint=path, progress=interrupt)
    return path


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"of": ppl.condition(heavy, {"y": Y})}, "the model's program"),
        ({"num_draws": 61}, "num_draws of a fit: the run has 60, the call 61"),
        ({"num_warmup": 61}, "num_warmup of a fit: the run has 60, the call 61"),
        ({"folds": 4}, "observations left out: the run has 'by 3 fits"),
        ({"folds": np.arange(SIZE) % 3}, "observations left out: the run has 'by 3 fits"),
        ({"joint": True}, "joint: the run has False, the call True"),
    ],
)
def test_other_folds_are_refused_and_said(begun, folder, given, match):
    with pytest.raises(ValueError, match=rf"is the folder of another run.*\n.*{match}"):
        cross_validate(checkpoint=folder, **given)
    assert not begun


def test_another_key_and_other_data_are_refused_and_said(begun, folder):
    def call(key, posterior, scale, **given):
        inference.cross_validate(key, posterior, scale, checkpoint=folder, folds=3, **FEW, **given)

    key = jax.random.key(SEED)
    with pytest.raises(ValueError, match=r"\n  key: the run has .*\n  observations left out"):
        call(jax.random.key(4), POSTERIOR, 1.5)
    with pytest.raises(ValueError, match=r"\n  argument 0 \(scale\): the run has"):
        call(key, POSTERIOR, 1.6)
    with pytest.raises(ValueError, match=r"\n  data 0 of the model \(y\): the run has"):
        call(key, ppl.condition(model, {"y": Y + 1}), 1.5)
    assert not begun


def test_an_interrupted_fit_is_not_taken_for_a_whole_one(monkeypatch, tmp_path, alone):
    sample = folds.sample

    def interrupted(*args, **given):  # what sample returns after Ctrl-C
        return sample(*args, **given | {"num_draws": 30})

    monkeypatch.setattr(folds, "sample", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cross_validate(checkpoint=tmp_path)
    monkeypatch.undo()
    same(cross_validate(checkpoint=tmp_path), alone)


def test_refits_of_loo_go_on(begun, tmp_path):
    first, second = (
        inference.mcmc(jax.random.key(i), POSTERIOR, 1.5, progress=False, **FEW) for i in (3, 4)
    )

    def loo(fit, **given):
        given = {"refit": -np.inf, "site": "y", **FEW} | given
        return inference.loo(fit, POSTERIOR, 1.5, **given)

    with pytest.raises(KeyboardInterrupt):
        loo(first, checkpoint=tmp_path, progress=interrupt)
    begun.clear()
    found = loo(first, checkpoint=tmp_path, executor=Pickling())
    assert len(begun) == SIZE - 2
    same(found, loo(first))
    with pytest.raises(ValueError, match=r"another run.*\n  draws of result: the run has"):
        loo(second, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="is the folder of a run of loo, not of cross_validate"):
        cross_validate(checkpoint=tmp_path)
    with pytest.raises(ValueError, match="loo: checkpoint is for fits, and without refit there"):
        loo(first, checkpoint=tmp_path, refit=None)
