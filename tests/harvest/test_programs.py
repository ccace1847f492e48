"""The laws on random programs, against a plain interpreter."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppl.harvest import call_and_reap, harvest

from . import programs
from .checks import TAG, assert_same, primitives, stack
from .programs import known_reaps, run, sows, to_jax

numbers = st.integers(-4, 4).map(float)


def nested(values: dict[tuple[str, ...], Any]) -> dict[Any, Any]:
    return known_reaps({path: (value, np.True_) for path, value in values.items()})


def oracle(program: Any, p: float, v: float, plants: Any) -> Any:
    out, reaps = run(program, p, v, plants)
    return np.float32(out), known_reaps(reaps)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=15)
@given(programs.programs(), numbers, numbers, st.data())
def test_a_program_reaped_and_planted(
    program: Any, p: float, v: float, data: st.DataObject
) -> None:
    """Reaping, and planting any choice of the names, agree with the plain interpreter."""
    f = to_jax(program)
    _, reaps = run(program, p, v, {})
    chosen = [path for path in reaps if data.draw(st.booleans())]
    plants = {path: np.asarray(reaps[path][0] + 1, np.float32) for path in chosen}
    inverse = {
        path: reaps[path][0] for path, sow in sows(program) if sow.mode in ("strict", "append")
    }

    @jax.jit
    def everything(p: Any, v: Any, plants: Any, inverse: Any) -> Any:
        harvested = harvest(f, tag=TAG)
        alone = lambda v: f(p, v)  # noqa: E731
        looked = lambda v: call_and_reap(f, tag=TAG)(p, v)[0]  # noqa: E731
        return {
            "alone": alone(v),
            "reaped": harvested({}, p, v),
            "planted": harvested(plants, p, v),
            "back": harvested(inverse, p, v)[0],
            "inside": harvest(jax.jit(f), tag=TAG)(plants, p, v),
            "derivatives": (jax.jvp(alone, (v,), (v,)), jax.jvp(looked, (v,), (v,))),
            "again": call_and_reap(lambda *args: harvested(plants, *args), tag=TAG)(p, v)[1],
        }

    results = everything(jnp.float32(p), jnp.float32(v), nested(plants), nested(inverse))
    out, known = oracle(program, p, v, {})
    planted = oracle(program, p, v, plants)
    assert_same(results["alone"], out)
    assert_same(results["reaped"], (out, known))
    assert_same(results["planted"], planted)
    assert_same(results["inside"], planted)
    assert_same(results["back"], out)
    assert_same(*results["derivatives"])
    assert results["again"] == {}
    assert "sow" not in primitives(lambda p, v: harvest(f, tag=TAG)({}, p, v), p, v)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=10)
@given(programs.programs(), numbers, numbers)
def test_a_program_under_vmap(program: Any, p: float, v: float) -> None:
    """Law 5: each element is reaped, and planted, as if it were alone."""
    f = to_jax(program)
    vs = [v, v + 1, -v]
    known = stack([oracle(program, p, v, {}) for v in vs])
    reaps = [run(program, p, v, {})[1] for v in vs]
    plants = [
        {path: np.asarray(r[path][0] - 1, np.float32) for path in list(r)[::2]} for r in reaps
    ]
    planted = stack([oracle(program, p, v, q) for v, q in zip(vs, plants, strict=True)])
    mapped = harvest(jax.vmap(f, in_axes=(None, 0)), tag=TAG)
    results = jax.jit(lambda plants, p, v: (mapped({}, p, v), mapped(plants, p, v)))(
        stack([nested(q) for q in plants]), jnp.float32(p), jnp.array(vs, jnp.float32)
    )
    assert_same(results, (known, planted))
