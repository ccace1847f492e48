"""Each analysis opens each construct of JAX; one without a record is an error in words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core as jex
from jax.random import key, split

import ppl
from ppl.analysis.dependence import Dependence
from ppl.analysis.ignored_dependence import check_ignored
from ppl.analysis.symbolic_evaluation import Symbolic
from ppl.core.model_run import trace_model
from ppl.harvest import handle, jaxprs, reap, sow, sown
from ppl.harvest.construct import may_be_parallel
from ppl.harvest.jax_core import has_sow
from ppl.harvest.liveness import Liveness
from ppl.harvest.program import trace
from ppl.harvest.rules import CONSTRUCTS
from ppl.harvest.survey import Survey
from ppl.primitives.site_kinds import TAGS

from .graphs import custom_jvp, custom_vjp, draw

NAN, KEY, SPEC = float("nan"), key(0), jax.P("i")
X, Y = jnp.float32(1.0), jnp.float32(2.0)


def bound(name, parameter, keeps_effects=True):
    """A primitive of one's own that carries a program."""
    primitive = jex.Primitive(name)
    primitive.multiple_results = True

    def abstract(*_, **params):
        program = params[parameter]
        program = program["inside"] if isinstance(program, dict) else program
        return program.out_avals, program.effects if keeps_effects else set()

    primitive.def_effectful_abstract_eval(abstract)

    def construct(f):
        def call(*args):
            program = jax.make_jaxpr(f)(*args)
            param = {"inside": program} if parameter == "hidden" else program
            return primitive.bind(*args, **{parameter: param})[0]

        return call

    return construct


def sharded(f):
    def body(xs, keys):
        return f(xs[0], keys[0])[None]

    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    mapped = jax.shard_map(body, mesh=mesh, in_specs=SPEC, out_specs=SPEC)
    return lambda x, key: mapped(x * jnp.ones(2), split(key, 2)).sum()


def elementwise(f):
    each = jax.vmap(lambda x, key: lax.cond(x > 0, f, f, x, key))
    return lambda x, key: each(x + jnp.arange(2.0), split(key, 2)).sum()


def scanned(f):
    return lambda x, key: lax.scan(lambda c, key: (f(c, key), None), x, split(key, 2))[0]


def repeated(f):
    return lambda x, key: lax.while_loop(lambda c: c < 3.0, lambda c: f(c, key), x)


def solved(f):
    return lambda x, key: lax.custom_linear_solve(lambda v: v, x, lambda _, b: f(b, key))


def root(f):
    return lambda x, key: lax.custom_root(
        lambda y: y - x, x, lambda _, y: f(y, key), lambda g, y: y / g(1.0)
    )


# Around a function of a number and a key.
ROWS = {
    "jit": jax.jit,
    "remat2": jax.checkpoint,
    "cond": lambda f: lambda x, key: lax.cond(x > 0, f, f, x, key),
    "vmap_of_cond": elementwise,
    "scan": scanned,
    "while": repeated,
    "custom_jvp_call": custom_jvp,
    "custom_vjp_call": custom_vjp,
    "custom_linear_solve": solved,
    "call_hi_primitive": root,
    "shard_map": sharded,
    "closed_call": bound("closed_call", "call_jaxpr"),
    "eval_jaxpr": bound("eval_jaxpr", "call_jaxpr"),
}
THREADED = {"jit", "cond", "scan", "while", "closed_call", "eval_jaxpr"}
UNKNOWN = {
    "jaxpr": bound("unknown", "jaxpr"),
    "another parameter": bound("unknown", "program"),
    "no effect": bound("unknown", "jaxpr", keeps_effects=False),
    "no effect, in a jit": lambda f: jax.jit(bound("unknown", "jaxpr", keeps_effects=False)(f)),
    "out of sight": bound("unknown", "hidden"),
}
every_construct = pytest.mark.parametrize("name", ROWS)
every_unknown = pytest.mark.parametrize("around", UNKNOWN.values(), ids=UNKNOWN)


def model_of(around):
    """b, inside of a construct, depends on a, and c on b."""

    def model(key):
        inside = around(lambda x, key: draw(key, x, "b"))
        return draw(key, inside(draw(key, 0.0, "a"), key), "c")

    return model


def sowing(around):
    """A value of x that is sown inside of a construct; y only scales the result."""

    def f(x, y):
        return y * around(lambda x, _: sow(x + 1.0, tag="t", name="b", mode="clobber"))(x, KEY)

    return f


def around_of(name):
    """The construct; skips one that this version of JAX does not make."""
    around = ROWS[name]
    if not any(eqn.primitive.name == name for eqn in equations(around)):
        pytest.skip(f"This version of JAX makes no {name}.")
    return around


def equations(around):
    return jaxprs.raw(jax.make_jaxpr(sowing(around))(X, Y))[0].eqns


def visited(program, survey):
    paths = set()
    Symbolic(program, survey, lambda site, *_: paths.add(site.path)).run()
    return paths


def survey_of(tags):
    return Survey(lambda site: site.tag in tags, lambda site: False, CONSTRUCTS)


def live_inputs(around):
    program = trace(sowing(around), (X, Y), {})
    reads = lambda eqn: (True,) * len(eqn.invars)  # noqa: E731
    liveness = Liveness(survey_of({"t"}), CONSTRUCTS, reads, has_sow, frozenset())
    return liveness.inputs(program.jaxpr, (False,))[-2:]


def threaded(around):
    handlers = {sown("t"): lambda count, value, path: (count + 1, value)}
    return handle(sowing(around), handlers, state=0)(X, Y)


def test_every_record_has_a_row():
    assert set(ROWS) == set(CONSTRUCTS)
    assert all(name == record.primitive for name, record in CONSTRUCTS.items())


@every_construct
def test_the_graph_has_the_site(name):
    if name == "while":
        with pytest.raises(ValueError, match="is in a while loop"):
            ppl.graph(model_of(ROWS[name]))()
        return
    graph = ppl.graph(model_of(around_of(name)))()
    assert set(graph.nodes) == {"a", "b", "c"}
    assert graph.direct == (("a", "b"), ("b", "c"))


@every_construct
def test_the_audit_of_ignore_sees_through(name):
    model, shape = (
        model_of(around_of(name)),
        (2,) if name in ("scan", "shard_map", "vmap_of_cond") else (),
    )
    ignored = ppl.condition(model, {"b": ppl.ignore(np.full(shape, NAN))})
    with pytest.raises(ValueError, match=r"depends on site 'b'|is in a while loop"):
        ppl.log_density(ignored)({"a": 0.0, "c": 0.0})


@every_construct
def test_the_audit_of_keys_sees_the_site(name):
    program = trace_model(model_of(around_of(name)), None, (), {})
    if name == "while":
        with pytest.raises(NotImplementedError, match=r"'b' stands inside of 'while'"):
            visited(program, survey_of(()))
    else:
        assert visited(program, survey_of(TAGS)) == {("a",), ("b",), ("c",)}


@every_construct
def test_state_is_threaded(name):
    around = around_of(name)
    if name not in THREADED:
        with pytest.raises(NotImplementedError, match=rf"inside of '{name}', which handle"):
            threaded(around)
        return
    out, count = threaded(around)
    steps = 2 if name in ("scan", "while") else 1
    assert (out, count) == (2.0 * (1.0 + steps), steps)


@every_construct
def test_a_record_needs_what_it_is_made_of(name):
    assert live_inputs(around_of(name)) == (True, False)
    assert reap(sowing(around_of(name)), tag="t")(X, Y).keys() == {"b"}


def check_refused(around):
    """No analysis loses the site in silence."""
    refused = pytest.raises(NotImplementedError, match=r"inside of|shows no program")
    model = model_of(around)
    program = trace_model(model, None, (), {})
    with refused:
        ppl.graph(model)()
    with refused:
        Dependence()(program.jaxpr)
    with refused:
        ppl.log_density(model)({"a": 0.0, "b": 0.0, "c": 0.0})
    with refused:
        visited(program, survey_of(()))
    with refused:
        survey_of(TAGS)(program.jaxpr)
    with refused:
        reap(sowing(around), tag="t")(X, Y)
    with refused:
        threaded(around)
    assert live_inputs(around)[0]


@every_construct
def test_without_its_record_a_construct_is_refused(name, monkeypatch):
    around = around_of(name)
    monkeypatch.delitem(CONSTRUCTS, name)
    check_refused(around)


@every_construct
def test_without_its_record_the_audit_of_ignore_passes_nothing(name, monkeypatch):
    """It refuses, or sees what depends on what is ignored where the construct is gone already."""
    model = model_of(around_of(name))
    if name == "while":
        return
    ignored = ppl.condition(model, {"a": ppl.ignore(np.array(NAN))})
    program = trace_model(ignored, None, (), {})
    monkeypatch.delitem(CONSTRUCTS, name)
    only_a = Survey(lambda site: site.path == ("a",), lambda site: False, CONSTRUCTS)
    with pytest.raises((NotImplementedError, ValueError), match=r"inside of|depends on site 'a'"):
        check_ignored("model", program, only_a(program.jaxpr))


@every_unknown
def test_an_unknown_construct_is_refused(around):
    check_refused(around)


def test_results_of_an_unknown_construct_depend_on_all_operands():
    def model(key):
        a, b = draw(key, 0.0, "a"), draw(key, 0.0, "b")
        pick = bound("unknown", "jaxpr")(lambda a, b: 2.0 * b)
        return draw(key, pick(a, b), "c")

    assert ppl.graph(model)().direct == (("a", "c"), ("b", "c"))


PARALLEL = {
    "unknown": (bound("unknown", "jaxpr")(jnp.sin), False),
    "reduce": (lambda x: lax.reduce(x[None], 0.0, lambda a, b: a * b + a, (0,)), True),
    "iota": (lambda x: x + jnp.arange(3.0), True),
    "remat2": (jax.checkpoint(jnp.sin), False),
    "jit": (jax.jit(jnp.sin), True),
}


@pytest.mark.parametrize(("f", "expected"), PARALLEL.values(), ids=PARALLEL)
def test_what_vmap_may_not_know_is_evaluated_step_by_step(f, expected):
    eqns = jaxprs.raw(jax.make_jaxpr(f)(X))[0].eqns
    assert all(map(may_be_parallel, eqns)) == expected
