"""Every misuse is an error at the Python boundary that names the site and says what to do."""

# ruff: noqa: E501

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from ppl.harvest import effect, handle, harvest, nest, plant, reap, sow, sow_cond, vjp_and_reap

from .checks import OTHER, TAG, assert_same
from .constructs import put

X = jnp.float32(1.0)
XS = jnp.array([1.0, 2.0])


def both(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: first(x) + second(x)


def modes(first: str, second: str) -> Callable[[Any], Any]:
    return lambda x: put(x, first, pred=True) + put(x, second, pred=True)


def branches(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A switch: JAX counts the branches of a cond from the one for False."""

    def drop(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: (f(x), x)[1]

    return lambda x: lax.switch(jnp.int32(x), [drop(first), drop(second)], x)


def scanned(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.scan(lambda c, _: (body(c), None), x, None, length=2)[0]


def looped(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.while_loop(lambda c: c < 3, lambda c: body(c) + 1, x)


PROGRAMS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "strict-twice": (modes("strict", "strict"), ValueError, "sow 'y'.*already been reaped.*'strict', then 'strict'.*own name.*nest.*append"),
    "strict-then-append": (modes("strict", "append"), ValueError, "sow 'y'.*'strict', then 'append'"),
    "clobber-then-strict": (modes("clobber", "strict"), ValueError, "sow 'y'.*'clobber', then 'strict'"),
    "append-then-clobber": (modes("append", "clobber"), ValueError, "sow 'y'.*'append', then 'clobber'"),
    "cond_clobber-then-append": (modes("cond_clobber", "append"), ValueError, "sow 'y'.*'cond_clobber', then 'append'"),
    "strict-in-jit-and-outside": (both(jax.jit(put), put), ValueError, "sow 'y'.*already been reaped"),
    "strict-twice-in-scope": (both(nest(put, scope="a"), nest(put, scope="a")), ValueError, "sow 'a.y'.*already been reaped"),
    "append-of-other-shape": (both(lambda x: put(x, "append"), lambda x: put(XS * x, "append").sum()), ValueError, r"sow 'y'.*different values: float32\[\] and then float32\[2\].*own name"),
    "append-of-other-dtype": (both(lambda x: put(x, "append"), lambda x: put(jnp.int32(1), "append").astype(float)), ValueError, r"sow 'y'.*different values: float32\[\] and then int32\[\]"),
    "append-of-other-structure": (both(lambda x: put(x, "append"), lambda x: put((x,), "append")[0]), ValueError, "sow 'y'.*different values"),
    "clobber-of-other-shape": (both(lambda x: put(x, "clobber"), lambda x: put(XS * x, "clobber").sum()), ValueError, "sow 'y'.*different values"),
    "strict-in-scan": (scanned(put), ValueError, "sow 'y'.*Cannot use strict mode inside `scan`.*append.*clobber"),
    "strict-in-fori": (lambda x: lax.fori_loop(0, 2, lambda i, c: put(c), x), ValueError, "sow 'y'.*Cannot use strict mode inside `scan`"),
    "strict-in-scope-in-scan": (scanned(nest(put, scope="a")), ValueError, "sow 'a.y'.*Cannot use strict mode"),
    "strict-in-jit-in-scan": (scanned(jax.jit(put)), ValueError, "sow 'y'.*Cannot use strict mode"),
    "strict-in-cond-in-scan": (scanned(branches(put, put)), ValueError, "sow 'y'.*Cannot use strict mode"),
    "strict-in-vmap-of-scan": (lambda x: jax.vmap(scanned(put))(XS * x), ValueError, "sow 'y'.*Cannot use strict mode"),
    "strict-in-while": (looped(put), ValueError, "sow 'y'.*Must use clobber or cond_clobber mode.*'strict'.*lax.scan"),
    "append-in-while": (looped(lambda x: put(x, "append")), ValueError, "sow 'y'.*Must use clobber or cond_clobber mode.*'append'"),
    "append-in-dynamic-fori": (lambda x: lax.fori_loop(0, jnp.int32(2), lambda i, c: put(c, "append"), x), ValueError, "sow 'y'.*Must use clobber"),
    "strict-in-condition-of-while": (lambda x: lax.while_loop(lambda c: put(c) < 3, lambda c: c + 1, x), ValueError, "sow 'y'.*Must use clobber"),
    "strict-in-condition-and-body": (lambda x: lax.while_loop(lambda c: put(c) < 3, lambda c: put(c + 1), x), ValueError, "sow 'y'.*already been reaped"),
    "append-in-associative-scan": (lambda x: lax.associative_scan(lambda a, b: put(a + b, "append"), x * XS), ValueError, "sow 'y'.*different values.*own name"),
    "strict-in-checkpoint-in-scan": (scanned(jax.checkpoint(put)), ValueError, "sow 'y'.*Cannot use strict mode"),
    "strict-twice-in-checkpoint": (jax.checkpoint(modes("strict", "strict")), ValueError, "sow 'y'.*already been reaped"),
    "append-in-scan-in-while": (looped(scanned(lambda x: put(x, "append"))), ValueError, "sow 'y'.*Must use clobber.*'append'"),
    "cond-missing-first": (branches(lambda x: x, put), ValueError, "sow 'y'.*Missing sow in branch 0 of a cond.*other branch"),
    "cond-missing-second": (branches(put, lambda x: x), ValueError, "sow 'y'.*Missing sow in branch 1 of a cond"),
    "cond-other-name": (branches(put, lambda x: put(x, name="z")), ValueError, "sow 'y'.*Missing sow in branch 1"),
    "cond-other-mode": (branches(put, lambda x: put(x, "append")), ValueError, "sow 'y'.*disagree in its mode: strict in branch 0, append in branch 1.*Make them agree"),
    "cond-other-clobber": (branches(lambda x: put(x, "clobber"), lambda x: put(x, "cond_clobber", pred=True)), ValueError, "sow 'y'.*disagree in its mode"),
    "cond-other-structure": (branches(put, lambda x: put((x, x))), ValueError, "sow 'y'.*disagree in its structure"),
    "cond-other-shape": (branches(put, lambda x: put(x * XS)), ValueError, r"sow 'y'.*disagree in its values: float32\[\] in branch 0, float32\[2\] in branch 1"),
    "cond-other-dtype": (branches(put, lambda x: put(jnp.int32(1))), ValueError, r"sow 'y'.*disagree in its values: float32\[\] in branch 0, int32\[\] in branch 1"),
    "cond-other-count": (branches(modes("append", "append"), lambda x: put(x, "append")), ValueError, "sow 'y'.*disagree in its number of sows: 2 in branch 0, 1 in branch 1"),
    "switch-missing-last": (lambda x: lax.switch(1, [put, put, lambda x: x], x), ValueError, "sow 'y'.*Missing sow in branch 2"),
    "name-and-scope": (both(put, nest(lambda x: put(x, name="z"), scope="y")), ValueError, "'y' is the name both of a sow and of a scope"),
    "scope-and-name": (both(nest(lambda x: put(x, name="z"), scope="y"), put), ValueError, "'y' is the name both of a sow and of a scope"),
}  # fmt: skip


@pytest.mark.slow_rows(
    "strict-in-fori",
    "strict-in-jit-in-scan",
    "strict-in-vmap-of-scan",
    "append-in-associative-scan",
    "append-in-scan-in-while",
    "cond-missing-first",
    "cond-other-clobber",
)
@pytest.mark.parametrize(("f", "kind", "message"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_that_cannot_be_harvested(
    f: Callable[[Any], Any], kind: type[Exception], message: str
) -> None:
    """Reaping says so, jitted too; and the function alone, or seen by another tag, runs."""
    f(X)
    for transformed in (
        reap(f, tag=TAG),
        jax.jit(reap(f, tag=TAG)),
        lambda x: plant(f, tag=TAG)({}, x),
    ):
        with pytest.raises(kind, match=message):
            transformed(X)
    assert_same(harvest(f, tag=OTHER)({}, X), (f(X), {}))


def test_a_sow_in_a_function_that_harvest_cannot_open() -> None:
    """JAX does not run it either; the error says which sow stands where."""
    f = lambda x: lax.reduce(x, jnp.float32(0), lambda a, b: put(a + b), (0,))  # noqa: E731
    with pytest.raises(NotImplementedError, match=r"sow 'y' stands inside of 'reduce'.*Move"):
        reap(f, tag=TAG)(XS)


def scoped(x: Any) -> Any:
    return nest(lambda x: put(x) + put(x, name="z"), scope="a")(x) + put(x, name="b")


PLANTS: dict[str, tuple[Callable[[Any], Any], Any, type[Exception], str]] = {
    "unknown": (scoped, {"c": 1.0}, ValueError, "plant 'c': no sow has this name. Use one of: 'a.y', 'a.z', 'b'"),
    "unknown-in-scope": (scoped, {"a": {"b": 1.0}}, ValueError, "plant 'a.b': no sow has this name"),
    "unscoped": (scoped, {"y": 1.0}, ValueError, "plant 'y': no sow has this name.*'a.y'"),
    "scope-of-nothing": (scoped, {"d": {"y": 1.0}}, ValueError, "plant 'd.*no sow has this name"),
    "nothing-sown": (lambda x: x, {"y": 1.0}, ValueError, "plant 'y': no sow has this name. There are no sows"),
    "other-tag": (lambda x: sow(x, tag=OTHER, name="y"), {"y": 1.0}, ValueError, "plant 'y': no sow has this name"),
    "value-for-scope": (scoped, {"a": 1.0}, TypeError, "'a' is a scope.*dict"),
    "dict-for-value": (scoped, {"b": {"y": 1.0}}, ValueError, r"plant 'b': expected float32\[\], got dict: {'y': 1.0}\.(\n|$)"),
    "ragged": (put, {"y": [[1.0], [1.0, 2.0]]}, ValueError, r"plant 'y': expected float32\[\], got list: \[\[1.0\], \[1.0, 2.0\]\]\.(\n|$)"),
    "rows": (put, {"y": (1.0, X)}, ValueError, r"plant 'y': expected float32\[\], got tuple: \(1.0, .*\)\. Use jnp.asarray\.(\n|$)"),
    "many": (put, {"y": [0.0] * 99}, ValueError, r"got list: \[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, \.\.\.\]\. Use jnp.asarray"),
    "structure": (lambda x: put((x, x)), {"y": [1.0, 1.0]}, ValueError, "plant 'y'.*structure"),
    "none": (put, {"y": None}, ValueError, r"plant 'y': expected float32\[\], got None\.(\n|$)"),
    "shape": (put, {"y": XS}, ValueError, r"plant 'y'.*expected float32\[\], got float32\[2\]"),
    "shape-in-scan": (scanned(lambda x: put(x, "append")), {"y": jnp.ones(3)}, ValueError, r"plant 'y'.*expected float32\[2\], got float32\[3\]"),
    "scalar-in-scan": (scanned(lambda x: put(x, "append")), {"y": 1.0}, ValueError, r"plant 'y'.*expected float32\[2\], got float32\[\].*broadcast"),
    "stack-for-clobber": (scanned(lambda x: put(x, "clobber")), {"y": XS}, ValueError, r"plant 'y'.*expected float32\[\], got float32\[2\]"),
    "scalar-in-vmap": (lambda x: jax.vmap(put)(x * XS), {"y": 1.0}, ValueError, r"plant 'y'.*expected float32\[2\], got float32\[\].*vmap.*broadcast"),
    "append-twice-too-few": (modes("append", "append"), {"y": jnp.ones(1)}, ValueError, r"plant 'y'.*expected float32\[2\], got float32\[1\]"),
    "dtype": (put, {"y": jnp.int32(1)}, TypeError, r"plant 'y'.*expected float32\[\], got int32\[\].*astype"),
    "no-array": (put, {"y": "one"}, TypeError, r"plant 'y'.*expected float32\[\], got 'one'"),
    "list": (put, [1.0], TypeError, "dict of values by name.*list"),
    "array": (put, X, TypeError, "dict of values by name"),
    "nothing": (put, None, TypeError, "dict of values by name.*None"),
    "name-and-scope": (both(put, nest(lambda x: put(x, name="z"), scope="y")), {"y": 1.0}, ValueError, "'y' is the name both of a sow and of a scope"),
}  # fmt: skip


@pytest.mark.parametrize(("f", "plants", "kind", "message"), PLANTS.values(), ids=PLANTS)
def test_a_plant_that_does_not_fit(
    f: Callable[[Any], Any], plants: Any, kind: type[Exception], message: str
) -> None:
    planted = lambda x: harvest(f, tag=TAG)(plants, x)  # noqa: E731
    for transformed in (planted, jax.jit(planted), jax.vmap(planted, axis_size=2, in_axes=None)):
        with pytest.raises(kind, match=message):
            transformed(X)


def test_excluded_names_are_left_alone() -> None:
    """A plant for a name that is sown, or not, but excluded, is no error and has no effect."""
    assert_same(harvest(scoped, tag=TAG, blocklist=["y"])({"a": {"y": 9.0}}, X)[0], 3.0)
    assert_same(harvest(scoped, tag=TAG, blocklist=["a"])({"a": {"y": 9.0}}, X)[0], 3.0)
    assert_same(harvest(scoped, tag=TAG, allowlist=["z"])({"b": 9.0, "nobody": 1.0}, X)[0], 3.0)
    with pytest.raises(ValueError, match="plant 'nobody'"):
        harvest(scoped, tag=TAG, blocklist=["y"])({"nobody": 1.0}, X)


SOWS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "mode": (lambda: sow(1.0, tag=TAG, name="y", mode="stritc"), ValueError, "sow 'y'.*mode must be one of.*'strict', 'append', 'clobber'.*'stritc'"),
    "mode-of-sow": (lambda: sow(1.0, tag=TAG, name="y", mode="cond_clobber"), ValueError, "sow 'y'.*sow_cond"),
    "mode-of-sow_cond": (lambda: sow_cond(1.0, True, tag=TAG, name="y", mode="clobber"), ValueError, "sow_cond 'y'.*cond_clobber.*'clobber'"),
    "predicate-shape": (lambda: sow_cond(1.0, jnp.array([True]), tag=TAG, name="y"), ValueError, r"sow_cond 'y'.*scalar.*\(1,\).*vmap"),
    "predicate-no-array": (lambda: sow_cond(1.0, "yes", tag=TAG, name="y"), TypeError, "sow_cond 'y'.*pred.*'yes'"),
    "predicate-float": (lambda: sow_cond(1.0, 0.5, tag=TAG, name="y"), TypeError, "sow_cond 'y': pred must be a boolean scalar, got 0.5"),
    "names": (lambda: reap(put, tag=TAG, allowlist=3), TypeError, "expected a collection of names, got 3"),
    "names-within": (lambda: reap(put, tag=TAG, blocklist=[["y"]]), TypeError, r"names must be hashable, got \['y'\]"),
    "function": (lambda: harvest(X, tag=TAG), TypeError, "harvest: f must be a function, got"),
    "function-of-reap": (lambda: reap(None, tag=TAG), TypeError, "f must be a function, got None"),
    "function-of-nest": (lambda: nest(3, scope="a"), TypeError, "nest: f must be a function, got 3"),
    "function-of-vjp": (lambda: vjp_and_reap(None, tag=TAG), TypeError, "vjp_and_reap: f must be a function, got None"),
    "function-of-handle": (lambda: handle("f", {}), TypeError, "handle: f must be a function, got 'f'"),
    "name": (lambda: sow(1.0, tag=TAG, name=["y"]), TypeError, r"sow \['y'\].*name must be hashable"),
    "tag": (lambda: sow(1.0, tag={}, name="y"), TypeError, "sow 'y'.*tag must be hashable"),
    "tag-of-sow_cond": (lambda: sow_cond(1.0, True, tag={}, name="y"), TypeError, "sow.* 'y'.*tag must be hashable"),
    "value": (lambda: sow("abc", tag=TAG, name="y"), TypeError, "sow 'y'.*pytree of arrays.*str.*'abc'.*register"),
    "value-in-pytree": (lambda: sow({"a": [object()]}, tag=TAG, name="y"), TypeError, "sow 'y'.*object"),
    "value-with-key": (lambda: sow("abc", tag=TAG, name="y", key=1), TypeError, "sow 'y'.*pytree of arrays"),
    "key": (lambda: sow(1.0, tag=TAG, name="y", key="abc"), TypeError, "sow 'y'.*key.*'abc'"),
    "scope": (lambda: nest(put, scope=["a"])(X), TypeError, "scope must be hashable.*'a'"),
    "tag-of-harvest": (lambda: reap(put, tag=[])(X), TypeError, "tag must be hashable"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), SOWS.values(), ids=SOWS)
def test_a_call_that_makes_no_sense(
    call: Callable[[], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call()


NO_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "value": lambda x: sow(x, tag=TAG, name="y"),
    "key": lambda x: sow(1.0, tag=TAG, name="y", key=x),
    "predicate": lambda x: sow_cond(1.0, x, tag=TAG, name="y"),
    "plant": lambda x: plant(put, tag=TAG)({"y": x}, X),
    "argument": lambda x: vjp_and_reap(lambda y, _: put(y), tag=TAG)(X, x),
    "operand": lambda x: effect("e", jnp.sin)(x),
    "state": lambda x: handle(put, {}, state=x)(X),
}


@pytest.mark.parametrize("call", NO_ARRAYS.values(), ids=NO_ARRAYS)
@pytest.mark.parametrize(
    "leaf", ["a", "f4", b"f4", "abc", object(), 2**200], ids=lambda x: type(x).__name__
)
def test_what_is_no_array(call: Callable[[Any], Any], leaf: Any) -> None:
    """JAX takes some strings for the names of dtypes, NumPy warns of others."""
    with pytest.raises(TypeError, match=re.escape(repr(leaf))):
        call(leaf)
