"""graph: edges known by hand, and edges against what changes when a value does."""

import dataclasses
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import key, split

import distributions as dist
import ppl

from .cases import CASES
from .graphs import ROWS, chain, custom_jvp, custom_vjp, draw, through_carry
from .programs import eight_schools


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_edges(row):
    graph = ppl.graph(row.model)(*row.args)
    found = [{f"{a}>{b}" for a, b in edges} for edges in (graph.direct, graph.carried)]
    assert found == [set(row.edges.split()), set(row.carried.split())]
    assert set(graph.edges) == {*graph.direct, *graph.carried}


def test_relatives():
    graph = ppl.graph(through_carry)()
    assert graph.edges == (("y", "x"), ("x", "y"), ("y", "z"))
    assert graph.parents("x") == graph.parents("z") == ("y",)
    assert graph.children("y") == ("x", "z")
    assert graph.ancestors("z") == graph.ancestors("x") == ("x", "y")
    graph = ppl.graph(eight_schools)(np.ones(8))
    assert graph.ancestors("y") == ("mu", "tau", "theta")
    assert graph.ancestors("mu") == graph.children("y") == ()


@pytest.mark.parametrize("method", ["parents", "children", "ancestors"])
def test_unknown_name(method):
    with pytest.raises(ValueError, match=r"no site 'd'. Use one of: 'a', 'b', 'unused', 'c'."):
        getattr(ppl.graph(chain)(), method)("d")


@pytest.mark.parametrize("name", ["to_svg", "to_dot", "nodes", "parents"])
def test_a_graph_that_was_not_called_says_so(name):
    words = rf"^graph: .* call it first, as ppl.graph\(model\)\(\*args\).{name}, or .*\(\).{name}"
    with pytest.raises(AttributeError, match=words):
        getattr(ppl.graph(chain), name)
    assert not hasattr(ppl.graph(chain), "_repr_html_")
    assert "'chain': call it" in repr(ppl.graph(chain))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_picture_has_every_site_and_edge(row):
    graph = ppl.graph(row.model)(*row.args)
    svg = graph.to_svg()
    assert svg.count('class="node"') == len(graph.nodes)
    assert svg.count('class="edge"') == len(graph.direct) + len(graph.carried)


def test_nodes():
    def model(key, x):
        a = ppl.sample(key, dist.Poisson(jnp.ones(3)), name="a")
        t = ppl.deterministic({"x": a * x, "y": a}, name="t")
        ppl.factor(-t["x"].sum(), name="f")
        return draw(key, t["y"].sum(), "y")

    graph = ppl.graph(ppl.condition(model, {"y": 1.0}))(2.0)
    nodes = graph.nodes
    assert repr(graph) == str(graph)
    kinds = {"a": "latent", "t": "deterministic", "f": "factor", "y": "observed"}
    assert {name: node.kind for name, node in nodes.items()} == kinds
    assert [node.family for node in nodes.values()] == ["Poisson", "", "", "Normal"]
    assert (nodes["a"].shape, nodes["a"].dtype) == ((3,), jnp.int32)
    assert nodes["t"].shape == {"x": (3,), "y": (3,)}
    assert nodes["t"].dtype == {"x": jnp.float32, "y": jnp.int32}


def test_each_jaxpr_is_read_once():
    """2**50 calls of functions that each call the next one twice."""

    def model(key):
        twice = lambda f: jax.jit(lambda x: f(x) + f(x))  # noqa: E731
        f = jnp.sin
        for _ in range(50):
            f = twice(f)
        return draw(key, f(draw(key, 0.0, "a")), "b")

    assert ppl.graph(model)().edges == (("a", "b"),)


def test_nothing_is_drawn():
    def fails(_):
        raise AssertionError

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class NoSampler:
        loc: Any
        batch_shape = event_shape = ()
        dtype = jnp.float32
        sample = log_prob = fails

    def model(key):
        a = ppl.sample(key, NoSampler(0.0), name="a")
        return ppl.sample(key, NoSampler(a), name="b")

    assert ppl.graph(model)().edges == (("a", "b"),)


def test_mutable_array_is_an_error():
    def model(key):
        ref = jax.new_ref(jnp.zeros(()))
        ref[...] = draw(key, 0.0, "a")
        return draw(key, ref[...], "b")

    with pytest.raises(NotImplementedError, match="mutable array"):
        ppl.graph(model)()


def inside(name):
    return ppl.nest(lambda key: draw(key, 0.0, name), scope="a")


TWICE = {
    "graph": lambda model: ppl.graph(model)(),
    "simulate": lambda model: ppl.simulate(model)(key(0)),
    "trace": lambda model: ppl.trace(model)(key(0)),
    "coordinates": lambda model: ppl.coordinates(model)(),
    "unconstrain": ppl.unconstrain,
    "block": lambda model: ppl.block(model, ["a.x"])(key(0)),
}


@pytest.mark.parametrize("use", TWICE.values(), ids=TWICE)
def test_one_name_for_two_sites_is_an_error(use):
    model = lambda key: (inside("x")(key), draw(key, 0.0, "a.x"))  # noqa: E731
    with pytest.raises(ValueError, match=r"two sites are called 'a\.x'.*Rename one"):
        use(model)


@pytest.mark.parametrize("name", ["x", "x.y", "x/y", "."])
def test_dots_and_slashes_in_names_are_no_scopes(name):
    model = inside(name)
    assert list(ppl.graph(model)().nodes) == list(ppl.coordinates(model)().sites) == [f"a.{name}"]
    assert str(ppl.trace(model)(key(0))).splitlines()[1].startswith(f"a.{name} ")
    (hidden,) = (ppl.simulate(ppl.block(model, [f"a.{name}"]))(key(0)),)
    assert hidden == {}
    assert list(ppl.simulate(model)(key(0))["a"]) == [name]
    conditioned = ppl.condition(model, {"a": {name: 0.0}})
    assert ppl.trace(conditioned)(key(0)).sites["a"][name].kind == "observed"


CALLS = [jax.jit, jax.checkpoint, custom_jvp, custom_vjp]


class Program:
    """A model of random statements, each of which reads what three of those before it gave."""

    KINDS = ("site", "observed", "deterministic", "vmap", "scan", "cond", "while", "call")

    def __init__(self, seed: int, num_statements: int = 9):
        rng = random.Random(seed)
        self.statements = [
            (
                rng.choice(self.KINDS) if i > 1 else "site",
                [rng.randrange(i) for _ in range(3) if i],
                [rng.uniform(0.5, 1.5) for _ in range(4)],
            )
            for i in range(num_statements)
        ]

    def __call__(self, key: Any) -> Any:
        values: list[Any] = []
        for i, (kind, reads, weights) in enumerate(self.statements):
            read = [jnp.sum(values[j]) for j in reads] or [1.0] * 3
            values.append(getattr(self, f"_{kind}")(key, f"v{i}", *read, weights))
        return values[-1]

    def _site(self, key, name, a, b, c, w):
        return ppl.sample(key, dist.Normal(w[0] * a, jnp.exp(jnp.sin(w[1] * b))), name=name)

    def _observed(self, key, name, *read):
        return ppl.condition(self._site, {name: 1.0})(key, name, *read)

    def _deterministic(self, key, name, a, b, c, w):
        return ppl.deterministic(jnp.sin(w[0] * a) + w[1] * b, name=name)

    def _vmap(self, key, name, a, b, c, w):
        one = lambda key, x: self._site(key, name, a * x, b, c, w)  # noqa: E731
        return jax.vmap(one)(split(key, 3), w[2] + jnp.arange(3.0))

    def _scan(self, key, name, a, b, c, w):
        def step(carry, key):
            x = self._site(key, name, carry[0], b, c, w)
            return (jnp.sin(x) if w[2] > 1 else carry[1], jnp.cos(carry[0])), x * carry[1]

        carry, ys = lax.scan(step, (a, c), split(key, 4))
        return ys if w[3] > 1 else carry[1]

    def _cond(self, key, name, a, b, c, w):
        site = lambda x: self._site(key, name, x, c, c, w)  # noqa: E731
        branches = (lambda: site(b), lambda: site(2.0))
        if w[2] <= 1:
            branches = (lambda: b, lambda: w[1] * c)
        return lax.cond(jnp.sin(3 * a) > 0, *branches) * (1.0 if w[3] > 1 else c)

    def _while(self, key, name, a, b, c, w):
        times = jnp.int32(jnp.round(3 + 3 * jnp.sin(a)))
        return lax.fori_loop(0, times, lambda _, x: jnp.sin(x) + w[0], b)

    def _call(self, key, name, a, b, c, w):
        f = CALLS[int(w[3] * 4) % 4](lambda a, b, c: (jnp.sin(a), w[0] * b * c))
        return f(a, b, c)[w[2] > 1]


def changes(model: Any, sites: list[str], num: int = 8) -> set[tuple[str, str]]:
    """The pairs (a, b) of sites such that the density of b changes with the value of a.

    Of a itself, that is the density of the elements behind the first, when the first one changes.
    """
    rng = np.random.default_rng(0)
    shapes = {name: jax.eval_shape(ppl.simulate(model), key(0))[name].shape for name in sites}
    base = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    density = ppl.log_probs(model)

    def moved(name: str, values: Any) -> dict[str, Any]:
        return jax.vmap(lambda x: density(base | {name: x}))(values)

    @jax.jit
    def densities(all_moved: Any, first_moved: Any) -> Any:
        every = {name: moved(name, x) for name, x in all_moved.items()}
        return density(base), every, {name: moved(name, x) for name, x in first_moved.items()}

    noise = {name: 3 * rng.normal(size=(num, *shape)) for name, shape in shapes.items()}
    all_moved = {name: base[name] + x for name, x in noise.items()}
    first = {name: x for name, x in all_moved.items() if x.ndim > 1}
    first = {
        name: np.concatenate([x[:, :1], base[name][None, 1:].repeat(num, 0)], 1)
        for name, x in first.items()
    }
    at_base, every, alone = densities(all_moved, first)
    differ = lambda x, y: bool((np.abs(x - y) > 1e-9).any())  # noqa: E731
    pairs = {(a, b) for a in sites for b in at_base if a != b and differ(every[a][b], at_base[b])}
    return pairs | {(a, a) for a in first if differ(alone[a][a][:, 1:], at_base[a][1:])}


@pytest.mark.quick_rows("2")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("x64")
def test_edges_are_what_densities_depend_on(seed):
    model = Program(seed)
    graph = ppl.graph(model)()
    kinds = {name: node.kind for name, node in graph.nodes.items()}

    def reached(name):
        """The random sites that depend on a site, perhaps through deterministic ones."""
        for child in graph.children(name):
            yield from reached(child) if kinds[child] == "deterministic" else [child]

    latent = [name for name, kind in kinds.items() if kind == "latent"]
    assert {(a, b) for a in latent for b in reached(a)} == changes(model, latent)


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_plates_are_the_axes_in_front(case):
    nodes = ppl.graph(case.model)(*case.args).nodes
    for node in nodes.values():
        sizes = tuple(plate.size for plate in node.plates)
        assert node.shape[: len(sizes)] == sizes


def test_what_a_shard_map_gives_back_may_be_no_copy():
    """The identity on each shard, put together as the transpose."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("i", "j"))
    specs = {"in_specs": jax.P("i", "j"), "out_specs": jax.P("j", "i")}
    turned = jax.shard_map(lambda x: x, mesh=mesh, **specs)

    def model(key):
        a = ppl.sample(key, dist.Normal(jnp.zeros((2, 2)), 1.0), name="a")
        b = ppl.sample(key, dist.Normal(0.0, 1.0), name="b")
        loc = lax.cond(b > 0, lambda: turned(a), lambda: a)
        return ppl.sample(key, dist.Normal(loc, 1.0), name="c")

    assert ppl.graph(model)().parents("c") == ("a", "b")
    posterior = ppl.condition(model, {"b": ppl.ignore(np.array(np.nan, np.float32))})
    values = {"a": jnp.ones((2, 2)), "c": jnp.zeros((2, 2))}
    with pytest.raises(ValueError, match="depends on site 'b', entries of which are ignored"):
        ppl.log_density(posterior)(values)
