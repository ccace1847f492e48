"""Random programs, compiled to JAX and run by a plain interpreter that knows what they sow.

A program transforms a number `v`; `p` is a second argument that no `vmap` inside of it maps. Every
number stays a small integer, so that both ways of running are exact.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax

from ppl.harvest import nest

from .constructs import put

LIMIT = 50.0


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """`v = clip(scale v + shift)`."""

    scale: int
    shift: int


@dataclasses.dataclass(frozen=True)
class Sow:
    """`v = sow(v)`, where `v > above` if conditional; `times` over, with `v + 1` in between.

    One that is `fixed` is of `p`, which no loop changes, and added to `v`.
    """

    name: str
    mode: str
    times: int
    above: int
    fixed: bool = False


@dataclasses.dataclass(frozen=True)
class Block:
    """A construct around a body.

    It is jit, checkpoint, custom_vjp, nest, vmap, scan, while, cond or choice. `size` is the size
    of the vmap or the number of iterations; a cond compares `p` to it, a choice compares `v`, which
    a vmap maps.
    """

    kind: str
    size: int
    name: str
    body: tuple[Any, ...]


Program = Sequence[Any]


def clip(v: Any, xp: Any) -> Any:
    return xp.clip(v, -LIMIT, LIMIT)


def other_branch(body: Program) -> list[Any]:
    """A body that sows the same names with other values."""
    return [Arithmetic(-1, 3), *body, Arithmetic(1, -2)]


def to_jax(program: Program) -> Callable[[Any, Any], Any]:
    """The program as a JAX function of (p, v)."""

    def f(p: Any, v: Any) -> Any:
        for statement in program:
            v = _statement(statement, p, v)
        return v

    return f


def _statement(s: Any, p: Any, v: Any) -> Any:
    if isinstance(s, Arithmetic):
        return clip(s.scale * v + s.shift, jnp)
    if isinstance(s, Sow):
        if s.fixed:
            return clip(v + put(p, s.mode, pred=p > s.above, name=s.name), jnp)
        for i in range(s.times):
            v = put(v + min(i, 1), s.mode, pred=v > s.above, name=s.name)
        return v
    f = to_jax(s.body)
    match s.kind:
        case "jit":
            return jax.jit(f)(p, v)
        case "checkpoint":
            return jax.checkpoint(f)(p, v)
        case "custom_vjp":
            return with_own_rule(f)(p, v)
        case "nest":
            return nest(f, scope=s.name)(p, v)
        case "vmap":
            mapped = jax.vmap(f, in_axes=(None, 0), axis_size=s.size)(
                p, v + jnp.arange(s.size, dtype=v.dtype)
            )
            return clip(mapped.sum(), jnp)
        case "scan":
            step = lambda v, i: (f(p, clip(v + i, jnp)), v)  # noqa: E731
            v, vs = lax.scan(step, v, jnp.arange(s.size, dtype=v.dtype))
            return clip(v - vs.sum(), jnp)
        case "while":
            return lax.fori_loop(0, jnp.int32(s.size), lambda i, v: f(p, clip(v + i, jnp)), v)
        case "cond" | "choice":
            other = to_jax(other_branch(s.body))
            return lax.cond((v if s.kind == "choice" else p) > s.size, f, other, p, v)
    raise AssertionError(s.kind)


def with_own_rule(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`f` with a custom derivative, which is that of `f`."""
    g = jax.custom_vjp(f)
    g.defvjp(lambda p, v: jax.vjp(f, p, v), lambda pullback, ct: pullback(ct))
    return g


Path = tuple[str, ...]
# A reaped value; with a flag that tells whether it was sown at all, for the two clobber modes.
Reaps = dict[Path, Any]


def run(program: Program, p: float, v: float, plants: dict[Path, Any]) -> tuple[float, Reaps]:
    """The program in plain Python: its result, and (value, whether it was sown) by path."""
    reaps: Reaps = {}
    for statement in program:
        v, new = _run(statement, p, v, plants)
        assert not reaps.keys() & new.keys()
        reaps |= new
    return v, reaps


def _run(s: Any, p: float, v: float, plants: dict[Path, Any]) -> tuple[float, Reaps]:
    if isinstance(s, Arithmetic):
        return clip(s.scale * v + s.shift, np), {}
    if isinstance(s, Sow) and s.fixed:
        sown, reaps = _sow(dataclasses.replace(s, fixed=False), p, plants)
        return clip(v + sown, np), reaps
    if isinstance(s, Sow):
        return _sow(s, v, plants)
    match s.kind:
        case "jit" | "checkpoint" | "custom_vjp":
            return run(s.body, p, v, plants)
        case "nest":
            inner = {path[1:]: x for path, x in plants.items() if path[0] == s.name}
            v, reaps = run(s.body, p, v, inner)
            return v, {(s.name, *path): x for path, x in reaps.items()}
        case "vmap":
            each = [
                run(s.body, p, v + i, {k: x[i] for k, x in plants.items() if k in names(s.body)})
                for i in range(s.size)
            ]
            outs, reaps = zip(*each, strict=True)
            return clip(sum(outs), np), {
                k: tuple(np.stack(c) for c in zip(*[r[k] for r in reaps], strict=True))
                for k in reaps[0]
            }
        case "cond" | "choice":
            is_first = (v if s.kind == "choice" else p) > s.size
            return run(s.body if is_first else other_branch(s.body), p, v, plants)
    return _loop(s, p, v, plants)


def _sow(s: Sow, v: float, plants: dict[Path, Any]) -> tuple[float, Reaps]:
    planted = plants.get((s.name,))
    values, last, took_place = [], 0.0, False
    for i in range(s.times):
        sown = v + min(i, 1)
        if s.mode != "cond_clobber" or v > s.above:
            last, took_place = sown, True
        values.append(sown)
        v = (
            sown
            if planted is None
            else _nth(planted, i)
            if s.mode == "append" and s.times > 1
            else planted
        )
    if planted is not None:
        return v, {}
    if s.mode == "append":
        value = np.array(values, np.float32) if s.times > 1 else np.float32(values[0])
        return v, {(s.name,): (value, np.ones(np.shape(value), bool))}
    return v, {(s.name,): (np.float32(last), np.bool_(took_place))}


def _nth(planted: Any, i: int) -> Any:
    return planted[i]


def _loop(s: Block, p: float, v: float, plants: dict[Path, Any]) -> tuple[float, Reaps]:
    sown, modes = names(s.body), dict(sows(s.body))
    history, vs = [], []
    for i in range(s.size):
        here = {k: x[i] if modes[k].mode == "append" else x for k, x in plants.items() if k in sown}
        vs.append(v)
        v, reaps = run(s.body, p, clip(v + i, np), here)
        history.append(reaps)
    reaps = {}
    for path in history[0]:
        if modes[path].mode == "append":
            reaps[path] = tuple(
                np.stack(column) for column in zip(*[h[path] for h in history], strict=True)
            )
        else:
            value, took_place = history[0][path]
            for h in history[1:]:
                value = np.where(h[path][1], h[path][0], value)
                took_place = took_place | h[path][1]
            reaps[path] = value, took_place
    return (clip(v - sum(vs), np) if s.kind == "scan" else v), reaps


def sows(program: Program) -> Iterator[tuple[Path, Sow]]:
    """The sows of a program by path, in program order."""
    for s in program:
        if isinstance(s, Sow):
            yield (s.name,), s
        elif isinstance(s, Block):
            prefix = (s.name,) if s.kind == "nest" else ()
            yield from (((*prefix, *path), sow) for path, sow in sows(s.body))


def names(program: Program) -> set[Path]:
    return {path for path, _ in sows(program)}


def known_reaps(reaps: Reaps) -> dict[Any, Any]:
    """Nested dicts, with zeros where nothing was sown."""
    out: dict[Any, Any] = {}
    for (*scopes, name), (value, took_place) in reaps.items():
        inner = out
        for scope in scopes:
            inner = inner.setdefault(scope, {})
        inner[name] = np.where(took_place, value, 0).astype(np.float32)
    return out


MODES = {
    "free": ["strict", "append", "clobber", "cond_clobber"],
    "scan": ["append", "clobber", "cond_clobber"],
    "while": ["clobber", "cond_clobber"],
}


def programs(max_depth: int = 3) -> st.SearchStrategy[list[Any]]:
    """Programs with at least one sow, every one under a name of its own."""
    return (
        _bodies("free", max_depth)
        .map(lambda body: _give_names(body, itertools.count()))
        .filter(names)
    )


def _bodies(inside: str, depth: int) -> st.SearchStrategy[tuple[Any, ...]]:
    choices: list[st.SearchStrategy[Any]] = [
        _sows(inside),
        st.builds(Arithmetic, st.sampled_from([1, -1, 2]), st.integers(-3, 3)),
    ]
    if depth:
        choices += [
            st.deferred(lambda k=k: _blocks(k, inside, depth - 1))
            for k in ("jit", "checkpoint", "nest", "vmap", "scan", "while", "cond", "choice")
        ]
    return st.lists(st.one_of(choices), min_size=1, max_size=3).map(tuple)


def _sows(inside: str) -> st.SearchStrategy[Sow]:
    # A strict sow stands once; the others may come again.
    return st.tuples(st.sampled_from(MODES[inside]), st.integers(1, 2), st.integers(-5, 5)).map(
        lambda t: Sow("", t[0], 1 if t[0] == "strict" else t[1], t[2])
    )


def _blocks(kind: str, inside: str, depth: int) -> st.SearchStrategy[Block]:
    within = {"scan": "while" if inside == "while" else "scan", "while": "while"}.get(kind, inside)
    sizes = st.integers(-3, 3) if kind in ("cond", "choice") else st.integers(1, 3)
    return st.builds(Block, st.just(kind), sizes, st.just(""), _bodies(within, depth))


def _give_names(body: Program, counter: Iterator[int]) -> list[Any]:
    out: list[Any] = []
    for s in body:
        if isinstance(s, Sow):
            out.append(dataclasses.replace(s, name=f"s{next(counter)}"))
        elif isinstance(s, Block):
            name = f"b{next(counter)}"
            out.append(dataclasses.replace(s, name=name, body=tuple(_give_names(s.body, counter))))
        else:
            out.append(s)
    return out
