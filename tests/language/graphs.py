"""Models and their graphs, by hand: which site depends on which."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.random import split

import distributions as dist
import ppl

from .loops import by_group, random_walk, shared_in_vmap, walkers
from .programs import EFFECTS, cond_on, eight_schools, jitted, nested, real


def draw(key: Any, loc: Any, name: str) -> Any:
    return ppl.sample(key, dist.Normal(loc, 1.0), name=name)


def chain(key):
    a = draw(key, 0.0, "a")
    b = draw(key, a, "b")
    unused = draw(key, b, "unused")
    del unused
    return draw(key, b, "c")


def scaled_by_argument(key, x):
    return draw(key, draw(key, 0.0, "a") * x, "b")


def with_deterministic(key):
    t = ppl.deterministic(draw(key, 0.0, "a") ** 2, name="t")
    return draw(key, t, "b")


def beside_deterministic(key):
    """The value that is recorded is used as it was, not as it was recorded."""
    a = draw(key, 0.0, "a")
    ppl.deterministic(a, name="t")
    return draw(key, a, "b")


def with_factor(key):
    ppl.factor(-draw(key, 0.0, "a"), name="f")
    return draw(key, 0.0, "b")


def through_carry(key):
    """y of the step before, and of the present one what y depends on."""

    def step(before, key):
        x = draw(key, before, "x")
        return draw(key, x, "y"), None

    return draw(key, lax.scan(step, 0.0, split(key, 3))[0], "z")


def carried_and_used(key):
    def step(x, key):
        ppl.deterministic(x, name="before")
        return draw(key, x, "x"), None

    return lax.scan(step, draw(key, 0.0, "start"), split(key, 3))[0]


def shift_register(length):
    """x depends on the two before it; what comes out is the last but one."""

    def model(key):
        def step(carry, key):
            a, b = carry
            x = draw(key, a + b, "x")
            return (b, x), None

        carry = draw(key, 0.0, "a"), draw(key, 0.0, "b")
        return draw(key, lax.scan(step, carry, split(key, length))[0][0], "y")

    return model


def circles(length):
    """Values change places, two by two and three by three, and one of them comes out."""

    def model(key):
        def step(carry, key):
            a, b, c, d, e = carry
            return (b, a, d, e, c), None

        start = tuple(draw(key, 0.0, name) for name in "abcde")
        out = lax.scan(step, start, split(key, length))[0]
        draw(key, out[0], "x")
        return draw(key, out[2], "y")

    return model


def long_circles(key):
    """60 steps until the order of twelve values is the first one again: too many to follow."""

    def step(carry, _):
        three, four, five = carry[:3], carry[3:7], carry[7:]
        return (*three[1:], three[0], *four[1:], four[0], *five[1:], five[0]), None

    start = tuple(draw(key, 0.0, f"v{i}") for i in range(12))
    return draw(key, lax.scan(step, start, length=120)[0][0], "y")


def predicate(kind):
    """What comes out of a branch is the value of a site, or not."""

    def model(key):
        a, b = draw(key, 0.0, "a"), draw(key, 0.0, "b")
        fns = {
            "site": (lambda: draw(key, b, "x"), lambda: draw(key, 0.0, "x")),
            "other": (lambda: 2 * draw(key, b, "x"), lambda: draw(key, 0.0, "x")),
            "outer-site": (lambda: b, lambda: jax.jit(lambda b: b)(b)),
            "no-site": (lambda: b, lambda: 1.0),
        }
        return draw(key, lax.cond(a > 0, *fns[kind]), "y")

    return model


def loop(key):
    """How often the loop runs depends on n; what it passes on as it was, does not."""
    n, x, kept = draw(key, 0.0, "n"), draw(key, 0.0, "x"), draw(key, 0.0, "kept")
    step = lambda c: (c[0] + 1.0, jnp.sin(c[1]), c[2])  # noqa: E731
    count, last, same = lax.while_loop(lambda c: c[0] < n, step, (0.0, x, kept))
    draw(key, count, "count")
    draw(key, last, "last")
    return draw(key, same, "same")


def two_results(call):
    """A call of a function with two results, each of one argument."""

    def model(key):
        f = call(lambda a, b: (jnp.sin(a), jnp.cos(b)))
        a, b = f(draw(key, 0.0, "a"), draw(key, 0.0, "b"))
        draw(key, a, "x")
        return draw(key, b, "y")

    return model


def custom_vjp(f):
    g = jax.custom_vjp(f)
    g.defvjp(lambda *args: (f(*args), None), lambda _, ct: ct)
    return g


def custom_jvp(f):
    g = jax.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (f(*primals), tangents))
    return g


def sharded(f):
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    on_vectors = lambda a, b: f(a * jnp.ones(2), b * jnp.ones(2))  # noqa: E731
    spec = jax.sharding.PartitionSpec("i")
    mapped = jax.shard_map(on_vectors, mesh=mesh, in_specs=jax.P(), out_specs=spec)
    return lambda a, b: tuple(x.sum() for x in mapped(a, b))


def sites_in_shards(key):
    a = draw(key, 0.0, "a")

    def body(keys):
        return draw(keys[0], a, "x")[None]

    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    x = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)(split(key, 2))
    return draw(key, x.sum(), "y")


def site_in_derivative_rule(key):
    @jax.custom_vjp
    def f(x):
        return draw(key, x, "b") * x

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return draw(key, f(draw(key, 0.0, "a")), "c")


def solve(key):
    """`custom_linear_solve` and `custom_root`."""
    a, b = draw(key, jnp.ones(2), "a"), draw(key, jnp.ones(2), "b")
    x = jnp.linalg.solve(jnp.diag(jnp.exp(a)), b)
    c = draw(key, x.sum(), "c")
    newton = lambda f, x: x - f(x)  # noqa: E731
    root = lax.custom_root(lambda x: x - c, 0.0, newton, lambda g, y: y / g(1.0))
    return draw(key, root, "d")


def conditioned_inside(key):
    """The data of a part are what another part drew."""
    x = draw(key, 0.0, "x")
    return ppl.condition(lambda key: draw(key, draw(key, 0.0, "m"), "y"), {"y": x})(key)


def tied(key):
    """A value sown with a key does not depend on it; another tag is no site."""
    a, b = draw(key, 0.0, "a"), draw(key, 0.0, "b")
    x = ppl.sow(a, tag="other", name="x", key=b)
    return draw(key, lax.optimization_barrier((x, b))[0], "y")


def hidden_by_name(key):
    """A scope within a scan within a jitted function."""
    a = draw(key, 0.0, "a")

    @jax.jit
    def part(key):
        return lax.scan(lambda x, key: (draw(key, x, "x"), None), a, split(key, 2))[0]

    return draw(key, ppl.nest(part, scope="s")(key), "b")


@dataclasses.dataclass(frozen=True)
class Row:
    """A model, and its edges "parent>child"; those to a later step apart."""

    model: Callable[..., Any]
    edges: str
    carried: str = ""
    args: tuple[Any, ...] = ()


SCHOOLS = "mu>theta tau>theta theta>y"
SWAP = "a>x", "b>x"
ROWS = {
    "straight": Row(model=chain, edges="a>b b>unused b>c"),
    "argument": Row(model=scaled_by_argument, edges="a>b", args=(2.0,)),
    "abstract-argument": Row(
        model=scaled_by_argument, edges="a>b", args=(jax.ShapeDtypeStruct((3,), "float32"),)
    ),
    "eight-schools": Row(
        model=eight_schools, edges=SCHOOLS, args=(jax.ShapeDtypeStruct((8,), "float32"),)
    ),
    "condition": Row(
        model=ppl.condition(eight_schools, {"y": EFFECTS}), edges=SCHOOLS, args=(np.ones(8),)
    ),
    "condition-in-the-middle": Row(
        model=ppl.condition(chain, {"b": 1.0}), edges="a>b b>unused b>c"
    ),
    "condition-inside": Row(model=conditioned_inside, edges="x>y m>y"),
    "intervene": Row(model=ppl.intervene(chain, {"b": 1.0}), edges="b>unused b>c"),
    "block": Row(model=ppl.block(chain, ["b"]), edges="a>unused a>c"),
    "scale": Row(model=ppl.scale(chain, 0.5), edges="a>b b>unused b>c"),
    "reparam": Row(model=ppl.reparam(chain, {"b": ppl.NonCentered()}), edges="a>b b>unused b>c"),
    "deterministic": Row(model=with_deterministic, edges="a>t t>b"),
    "deterministic-not-used": Row(model=beside_deterministic, edges="a>t a>b"),
    "factor": Row(model=with_factor, edges="a>f"),
    "random-walk": Row(model=random_walk, edges="scale>x x>y", carried="x>x", args=(0.5,)),
    "through-carry": Row(model=through_carry, edges="x>y y>z", carried="y>x"),
    "carried-and-used": Row(
        model=carried_and_used, edges="start>before start>x", carried="x>before x>x"
    ),
    "one-step": Row(model=shift_register(1), edges="a>x b>x b>y"),
    "two-steps": Row(model=shift_register(2), edges="a>x b>x x>y", carried="x>x"),
    "many-steps": Row(model=shift_register(9), edges="a>x b>x x>y", carried="x>x"),
    "no-steps": Row(model=shift_register(0), edges="a>y"),
    "circles": Row(model=circles(8), edges="a>x e>y"),
    "circles-odd": Row(model=circles(9), edges="b>x c>y"),
    "long-circles": Row(model=long_circles, edges="v0>y v1>y v2>y"),
    "branch-site": Row(model=predicate("site"), edges="a>x b>x x>y"),
    "branch-site-observed": Row(
        model=ppl.condition(predicate("site"), {"x": 1.0}), edges="a>x b>x x>y"
    ),
    "branch-other": Row(model=predicate("other"), edges="a>x a>y b>x x>y"),
    "branch-outer-site": Row(model=predicate("outer-site"), edges="b>y"),
    "branch-no-site": Row(model=predicate("no-site"), edges="a>y b>y"),
    "branch-families": Row(model=cond_on(lambda z: z > 0), edges="z>x x>y", args=(0.1,)),
    "while": Row(model=loop, edges="n>count n>last x>last kept>same"),
    "jit": Row(model=two_results(jax.jit), edges="a>x b>y"),
    "jit-nested": Row(model=jitted, edges="x>y", args=(1.5,)),
    "vmap": Row(
        model=two_results(
            lambda f: lambda a, b: (x.sum() for x in jax.vmap(f, (0, None))(a * jnp.ones(2), b))
        ),
        edges="a>x b>y",
    ),
    "checkpoint": Row(model=two_results(jax.checkpoint), edges="a>x b>y"),
    "custom-vjp": Row(model=two_results(custom_vjp), edges="a>x b>y"),
    "custom-jvp": Row(model=two_results(custom_jvp), edges="a>x b>y"),
    "shard-map": Row(model=two_results(sharded), edges="a>x b>y"),
    "sites-in-shard-map": Row(model=sites_in_shards, edges="a>x x>y"),
    "site-in-custom-vjp": Row(model=site_in_derivative_rule, edges="a>b a>c b>c"),
    "solve": Row(model=solve, edges="a>c b>c c>d"),
    "sow": Row(model=tied, edges="a>y"),
    "by-group": Row(model=by_group, edges="slope>y scale>y level>y", args=(real(3, 4),)),
    "shared-in-vmap": Row(model=shared_in_vmap, edges="slope>y", args=(real(3),)),
    "scan-of-vmap": Row(model=walkers, edges="", carried="x>x", args=(real(3),)),
    "nest": Row(model=nested, edges="a.x>a.y a.y>b.x b.x>b.y b.y>c.d.x c.d.x>c.d.y", args=(0.3,)),
    "nest-scan-jit": Row(model=hidden_by_name, edges="a>s.x s.x>b", carried="s.x>s.x"),
}
