"""The table of primitives: its names are JAX's, its axes hold, and nothing else is known."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import sparse
from jax.extend import core as jex
from jax.interpreters import ad, batching, mlir

import ppl.marginal.triangular_factors
from distributions.common import eigenvectors, triangular_factors
from ppl.analysis.element_rules import ELEMENTS
from ppl.analysis.terms import Terms
from ppl.harvest.array_primitives import ARRAY_PRIMITIVES, Kind, array_primitive
from ppl.harvest.rules import parallel_scan
from ppl.marginal import array_axes, degree, moved_elements, repeated_elements
from ppl.marginal.abstract_values import AbstractValue
from ppl.marginal.array_axes import axes_of
from ppl.marginal.axis_rules import apply_rule
from ppl.marginal.element_dependence import ALL, Aligned, Source

DEFINE_SOME = (eigenvectors, sparse, triangular_factors, ppl.marginal.triangular_factors)
READERS = {
    "all": ARRAY_PRIMITIVES,
    "axes": array_axes._BY_NAME,
    "degrees": degree._RULES,
    "idempotent reductions": repeated_elements._IDEMPOTENT,
    "keys": ELEMENTS,
    "moves": moved_elements.MOVES,
    "repeated elements": repeated_elements._RULES,
    "repeats": parallel_scan._REPEATS,
    "step by step": parallel_scan._STEP_BY_STEP,
}
NEWER = {"log2", "one_minus_square"}  # primitives since JAX 0.12
APART = ("keys", "step by step")  # with names that the table of all has not


@pytest.mark.parametrize("reader", READERS)
def test_names_are_those_of_primitives_of_the_jax_at_hand(reader):
    tables = batching.fancy_primitive_batchers, ad.primitive_jvps
    names = {primitive.name for table in tables for primitive in table}
    newer = NEWER if jax.__version_info__ < (0, 12) else set()
    assert set(READERS[reader]) <= names | newer


@pytest.mark.parametrize("reader", sorted(set(READERS) - set(APART)))
def test_readers_have_rules_for_known_primitives(reader):
    assert set(READERS[reader]) <= set(ARRAY_PRIMITIVES)


def test_each_movement_is_told_in_numbers():
    movements = {name for name, row in ARRAY_PRIMITIVES.items() if row.kind is Kind.MOVEMENT}
    assert set(moved_elements.MOVES) == movements
    assert {name for name in ELEMENTS if not name.startswith("random_")} <= movements


X = np.random.default_rng(0).normal(size=(3, 1, 4, 4))
X = X @ X.swapaxes(2, 3) + np.eye(4)
AT = np.array([[2], [0]], np.int32)
ROWS = lax.GatherDimensionNumbers((0, 1, 3), (2,), (2,))
AXES = {  # A program of one equation, and the axis of its result that each axis of `X` becomes.
    "exp": (lax.exp, (0, 1, 2, 3)),
    "mul": (lambda x: lax.mul_p.bind(x, jnp.ones((3, 5, 4, 4))), (0, None, 2, 3)),
    "reduce_sum": (lambda x: x.sum((0, 2)), (None, 0, None, 1)),
    "reduce_sum under vmap": (jax.vmap(lambda x: x.sum(0)), (0, None, 1, 2)),
    "cumsum": (lambda x: lax.cumsum_p.bind(x, axis=2, reverse=False), (0, 1, None, 3)),
    "sort": (lambda x: lax.sort(x, dimension=0), (None, 1, 2, 3)),
    "cholesky": (lax.linalg.cholesky_p.bind, (0, 1, None, None)),
    "dot_general": (
        lambda x: lax.dot_general(jnp.ones((4, 5, 3)), x, (((0,), (2,)), ((2,), (0,)))),
        (0, 2, None, 3),
    ),
    "transpose": (lambda x: lax.transpose(x, (2, 0, 3, 1)), (1, 3, 0, 2)),
    "squeeze": (lambda x: lax.squeeze(x, (1,)), (0, None, 1, 2)),
    "stack": (lambda x: lax.stack_p.bind(x, x, axis=1), (0, 2, 3, 4)),
    "unstack": (lambda x: lax.unstack_p.bind(x, axis=2), (0, 1, None, 2)),
    "broadcast_in_dim": (
        lambda x: lax.broadcast_in_dim(x, (3, 2, 1, 4, 4), (0, 2, 3, 4)),
        (0, 2, 3, 4),
    ),
    "reshape": (lambda x: lax.reshape(x, (1, 3, 4, 1, 4)), (1, 0, 2, 4)),
    "reshape of longer axes": (lambda x: lax.reshape(x, (1, 4, 12)), (None, 0, None, None)),
    "dynamic_slice": (
        lambda x: lax.dynamic_slice(x, (AT[0, 0], 0, 0, 0), (2, 1, 4, 4)),
        (None, 1, 2, 3),
    ),
    "gather": (lambda x: lax.gather(x, AT, ROWS, (3, 1, 1, 4)), (0, 1, None, 3)),
    "gather along a batch": (
        lambda x: jax.vmap(lambda row, i: lax.dynamic_slice(row, (0, 0, i), (1, 4, 2)))(
            x, jnp.arange(3)
        ),
        (0, 1, 2, None),
    ),
    "fft": (
        lambda x: lax.fft_p.bind(x, fft_type=lax.FftType.RFFT, fft_lengths=(4,)),
        (None, None, None, None),
    ),
}


def equation_of(f, *args):
    """The first equation that reads the first argument, and which of its operands that is."""
    jaxpr = jax.make_jaxpr(f)(*args).jaxpr
    eqn = next(eqn for eqn in jaxpr.eqns if jaxpr.invars[0] in eqn.invars)
    return eqn, eqn.invars.index(jaxpr.invars[0])


@pytest.mark.parametrize("name", AXES)
def test_elements_stay_apart_along_the_axes_that_are_told(name):
    f, expected = AXES[name]
    eqn, k = equation_of(f, X)
    places = axes_of(eqn)[k]
    assert places == expected
    assert {type(place) for place in places} <= {int, type(None)}
    result = jax.tree.leaves(f(X))[0]
    for axis, place in enumerate(places):
        if place is not None and X.shape[axis] == result.shape[place]:
            for i in range(X.shape[axis]):
                at = (slice(None),) * axis + (i,)
                changed = jax.tree.leaves(f(jnp.asarray(X).at[at].multiply(2.0)))[0]
                others = np.delete(np.asarray(result == changed), i, place)
                assert others.all()


def make_unknown():
    """A primitive of which no table knows: the identity."""
    primitive = jex.Primitive("unknown_to_all_tables")
    primitive.def_impl(lambda x: x)
    primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(primitive, lambda ctx, x: [x])
    return primitive


def test_nothing_is_known_of_a_primitive_in_no_table():
    unknown = make_unknown()
    eqn, _ = equation_of(unknown.bind, X)
    assert array_primitive(eqn).kind is Kind.MIXTURE
    site = Source(("z",))
    (uses,) = apply_rule(eqn, [AbstractValue(X.shape, {site: (Aligned(0),)}, 0)])
    assert uses == {site: (ALL,)}
    jaxpr = jax.make_jaxpr(unknown.bind)(X)
    (found,) = degree.find_degrees(jaxpr, [degree.Degree(1, frozenset("x"))])
    assert (found.degree, found.cause) == (math.inf, (unknown.name, frozenset("x")))
    assert not parallel_scan._is_linear(eqn)
    terms = Terms(ELEMENTS)
    (term,) = terms.results(eqn, [terms.fresh()])
    assert terms.element(term, 0) == terms.of("element", term, 0)
    spread = lambda x: unknown.bind(jnp.broadcast_to(x, (3,)))  # noqa: E731
    np.testing.assert_array_equal(repeated_elements.evaluate_once(spread, 2.0), np.full(3, 2.0))
