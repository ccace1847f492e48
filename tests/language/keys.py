"""Models by how they use their keys: those that share randomness between sites, and those that do not.

Each takes a typed key or a legacy one. Every site is uniform on (0, 1), so that equal draws are shared.
"""

# ruff: noqa: E501

import jax
import jax.numpy as jnp
from jax import lax
from jax.random import fold_in, key, split
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import distributions as dist
import ppl

ZEROS = jnp.zeros(3)
CONSTANT = key(7)
HALF = 0.5


def site(key, x=0.0, name="x"):
    """A site, whose distribution depends on `x`."""
    return ppl.sample(key, dist.Uniform(x, 1.0), name=name)


def scoped(scope, *keys, f=site):
    return ppl.nest(f, scope=scope)(*keys)


def paired(*keys):
    """A site for each of two keys, which may be one."""
    return jax.vmap(site)(jnp.stack(keys))


def scanned(body, xs, carry=0.0, **options):
    """`body(carry, x)` gives what to stack."""
    return lax.scan(lambda c, x: (c, body(c, x)), carry, xs, **options)[1]


def mapped(keys):
    return jax.vmap(site)(keys)


def walk(key):
    return lax.scan(lambda x, k: (site(k, HALF * x),) * 2, 0.0, split(key, 3))[0]


def repeated(key):
    return jnp.repeat(key[None], 3, axis=0)


def with_data(key, impl=None):
    """The key, by way of its data."""
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=impl) if is_typed else key


def implementations(key):
    """Two kinds of keys with the same data."""
    data = jax.random.key_data(key)
    safe = jax.random.wrap_key_data(jnp.concatenate([data, data]), impl="rbg")
    return safe, with_data(safe, "unsafe_rbg")


@jax.custom_vjp
def with_vjp(key, x):
    return site(key, x)


with_vjp.defvjp(lambda key, x: (site(key, x), None), lambda _, ct: (None, ct))


def over_shards(body, *, spec=None, **axes):
    """`body(key, x)`, x a number, on four shards."""
    axes = axes or {"i": 4}
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    split_up = P(tuple(axes))
    run = lambda key, x: body(key, x[0])[None]  # noqa: E731
    run = jax.shard_map(run, mesh=mesh, in_specs=(spec or P(), split_up), out_specs=split_up)
    return lambda key: run(key, jnp.zeros(4))


def by_index(key, *axes):
    """A key for each shard along some axes of the mesh."""
    for axis in axes:
        key = fold_in(key, lax.axis_index(axis))
    return key


def counted(key, n):
    """The key after a number of splits that is known when the loop runs, in a while loop."""
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, fold_in(s[1], s[0])), (0, key))[
        1
    ]


def chosen(scope, which, key):
    """The same site in both branches."""
    f = lambda key: scoped(scope, key)  # noqa: E731
    return lax.cond(which, f, f, key)


def turns(body):
    """Two keys that take turns."""
    return lambda key: lax.scan(
        lambda keys, x: (keys[::-1], body(keys[0], x)), tuple(split(key)), ZEROS
    )[1]


def split_as_you_go(key):
    for i in range(3):
        key, k = split(key)
        scoped(f"g{i}", k)


def first_of(key, *_):
    return key


def recursive(key, depth):
    if depth == 0:
        return site(key)
    return lax.scan(
        lambda key, _: (split(key)[0], recursive(split(key)[1], depth - 1)), key, None, length=2
    )[1].sum()


MAP = ("site 'x'", "several elements of a vmap", "jax.vmap(f)(jax.random.split(key, n), x)")
SCAN = (
    "site 'x'",
    "several iterations of a scan",
    "lax.scan(body, init, jax.random.split(key, n))",
    "fold_in(key, i)",
)
SHARDS = (
    "site 'x'",
    "several shards of a shard_map",
    "jax.random.split(key, n) with the in_spec P(axis)",
    "lax.axis_index(axis)",
)
DEEP = ("site 'a.x'", *SCAN[1:])
DEEP_MAP = ("site 'a.x'", *MAP[1:])

# A model, and the words of its error.
SHARED = {
    "vmap": (lambda key: jax.vmap(lambda x: site(key, x))(ZEROS), MAP),
    "vmap-in_axes": (lambda key: jax.vmap(site, (None, 0))(key, ZEROS), MAP),
    "vmap-one-of-a-split": (lambda key: jax.vmap(lambda x: site(split(key)[0], x))(ZEROS), MAP),
    "vmap-stacked": (lambda key: mapped(jnp.stack([key] * 3)), MAP),
    "vmap-repeated-then-split": (lambda key: jax.vmap(lambda k: site(split(k)[1]))(repeated(key)), MAP),
    "vmap-repeated-then-unpacked": (lambda key: jax.vmap(lambda k: site(fold_in(tuple(split(k))[1], 2)))(repeated(key)), MAP),
    "vmap-broadcast": (lambda key: mapped(jnp.broadcast_to(key, (3, *key.shape))), MAP),
    "vmap-overlap": (lambda key: mapped(jnp.concatenate([split(key, 2), split(key, 3)[1:]])), MAP),
    "vmap-inner": (lambda key: jax.vmap(lambda k: jax.vmap(lambda x: site(k, x))(ZEROS))(split(key, 2)), MAP),
    "vmap-outer": (lambda key: jax.vmap(lambda x: jax.vmap(lambda k: site(k, x))(split(key, 2)))(ZEROS), MAP),
    "vmap-of-scan": (lambda key: jax.vmap(lambda k: scanned(lambda _, x: site(k, x), ZEROS))(split(key, 2)), SCAN),
    "scan": (lambda key: scanned(lambda _, x: site(key, x), ZEROS), SCAN),
    "scan-backwards": (lambda key: scanned(lambda _, x: site(split(key)[0], x), ZEROS, reverse=True), SCAN),
    "scan-carried": (lambda key: scanned(site, ZEROS, carry=key), SCAN),
    "scan-of-one-key": (lambda key: scanned(lambda _, x: site(split(key, 3)[0], x), ZEROS), SCAN),
    "scan-two-in-turn": (turns(site), SCAN),
    "scan-inner": (lambda key: scanned(lambda _, k: scanned(lambda _, x: site(k, x), ZEROS), split(key, 2)), SCAN),
    "scan-outer": (lambda key: scanned(lambda *_: walk(key), jnp.zeros(2)), SCAN),
    "scan-in-scope": (lambda key: scoped("a", key, f=lambda k: scanned(lambda _, x: site(k, x), ZEROS)), DEEP),
    "scan-checkpointed": (lambda key: scanned(lambda _, x: jax.checkpoint(site)(key, x), ZEROS), SCAN),
    "scan-with-vjp": (lambda key: scanned(lambda _, x: with_vjp(key, x), ZEROS), SCAN),
    "scan-with-cond": (lambda key: scanned(lambda _, x: lax.cond(x > 0, site, lambda key, x: site(key, -x), key, x), ZEROS), SCAN),
    "scan-closed-over": (lambda _: scanned(lambda _, x: site(CONSTANT, x), ZEROS), SCAN),
    "fori_loop": (lambda key: lax.fori_loop(0, 3, lambda i, x: x + site(jax.jit(fold_in)(key, 3)), 0.0), SCAN),
    "shard_map": (over_shards(lambda key, x: site(split(key)[0], x)), SHARDS),
    "shard_map-one-axis-of-two": (over_shards(lambda key, x: site(by_index(key, "i"), x), i=2, j=2), SHARDS),
    "shard_map-scan": (over_shards(lambda key, x: scanned(lambda _, i: site(by_index(key, "i"), x), ZEROS)[0]), SCAN),
    "pair": (lambda key: paired(key, key), MAP),
    "pair-same-split": (lambda key: paired(split(key)[0], first_of(*split(key))), MAP),
    "pair-two-splits": (lambda key: paired(split(key, 2)[1], split(key, 3)[1]), MAP),
    "pair-same-grid": (lambda key: paired(split(key, (2, 3))[1, 2], split(key, (2, 3))[1][2]), MAP),
    "pair-with_data": (lambda key: paired(with_data(key), with_data(key)), MAP),
    "pair-with_data-of-one": (lambda key: paired(with_data(split(key)[0]), split(key)[0]), MAP),
    "pair-clone": (lambda key: paired(key, jax.random.clone(key)), MAP),
    "pair-in-a-scope": (lambda key: scoped("a", key, key, f=paired), DEEP_MAP),
    "pair-through-a-loop": (lambda key: paired(lax.scan(lambda k, x: (k, x), key, ZEROS)[0], key), MAP),
}  # fmt: skip

GOOD = {
    "one-key-two-names": lambda key: site(key) + site(key, name="z"),
    "python-loop": lambda key: [scoped(f"g{i}", k) for i, k in enumerate(split(key, 3))],
    "python-loop-fold_in": lambda key: [scoped(f"g{i}", fold_in(key, i)) for i in range(3)],
    "split-as-you-go": split_as_you_go,
    "vmap": lambda key: mapped(split(key, 3)),
    "vmap-fold_in": lambda key: jax.vmap(lambda i: site(fold_in(key, i)))(jnp.arange(3)),
    "vmap-fold_in-twice": lambda key: jax.vmap(lambda i: jax.vmap(lambda j: site(fold_in(fold_in(key, i), j)))(jnp.arange(2)))(jnp.arange(3)),
    "vmap-of-vmap": lambda key: jax.vmap(mapped)(split(key, (2, 3))),
    "vmap-of-one": lambda key: jax.vmap(lambda x: site(key, x))(ZEROS[:1]),
    "vmap-of-none": lambda key: jax.vmap(lambda x: site(key, x))(ZEROS[:0]),
    "unmapped-in-vmap": lambda key: jax.vmap(lambda x: site(key) * x)(ZEROS),
    "vmap-in_axes": lambda key: jax.vmap(lambda keys: site(keys[0]), 1)(split(key, (1, 3))),
    "vmap-dict-of-keys": lambda key: jax.vmap(lambda d: site(d["a"]) + site(d["b"], name="z"))({"a": split(key, 3), "b": split(key, 3)}),
    "vmap-of-scan": lambda key: jax.vmap(walk)(split(key, 2)),
    "vmap-indexed": lambda key: jax.vmap(lambda i: site(split(key, 3)[i]))(jnp.arange(3)),
    "vmap-permuted": lambda key: mapped(split(key, 3)[jnp.array([2, 0, 1])]),
    "jit-vmap": lambda key: jax.jit(jax.vmap(jax.jit(site)))(split(key, 3)),
    "vectorize": lambda key: jnp.vectorize(lambda i: site(fold_in(key, i)))(jnp.arange(3)),
    "vmap-stacked": lambda key: mapped(jnp.stack([key, *split(key, 2)])),
    "scan": walk,
    "scan-backwards": lambda key: scanned(lambda _, k: site(k), split(key, 3), reverse=True),
    "scan-of-one": lambda key: scanned(lambda _, x: site(key, x), ZEROS[:1]),
    "scan-of-none": lambda key: scanned(lambda _, x: site(key, x), ZEROS[:0]),
    "scan-carried": lambda key: lax.scan(lambda key, x: (split(key)[0], site(split(key)[1], x)), key, ZEROS)[1],
    "scan-carried-fold_in": lambda key: lax.scan(lambda key, x: (fold_in(key, 0), site(key, x)), key, ZEROS)[1],
    "scan-first-key-apart": lambda key: scanned(lambda _, k: site(k), jnp.concatenate([split(key, 3)[1:], split(key, 1)])),
    "scan-of-scan": lambda key: scanned(lambda _, ks: scanned(lambda _, k: site(k), ks), split(key, (2, 3))),
    "scan-of-scan-split-inside": lambda key: scanned(lambda _, k: walk(k), split(key, 2)),
    "scan-of-scan-two-indices": lambda key: scanned(lambda _, i: scanned(lambda _, j: site(fold_in(fold_in(key, i), j)), jnp.arange(3)), jnp.arange(2)),
    "scan-of-chunks": lambda key: scanned(lambda _, ks: mapped(ks), split(key, 6).reshape(2, 3, *key.shape)),
    "scan-of-vmap": lambda key: scanned(lambda _, k: mapped(split(k, 2)), split(key, 3)),
    "scan-zip": lambda key: scanned(lambda _, kx: site(*kx), (split(key, 3), ZEROS)),
    "scan-checkpointed": lambda key: scanned(lambda _, k: jax.checkpoint(site)(k), split(key, 3)),
    "scan-with-vjp": lambda key: scanned(lambda _, k: with_vjp(k, 0.0), split(key, 3)),
    "scan-with-cond": lambda key: scanned(lambda _, k: lax.cond(True, site, lambda k: site(k, HALF), k), split(key, 3)),
    "scan-while": lambda key: scanned(lambda _, n: site(counted(key, n)), jnp.arange(3)),
    "scan-key-by-choice": lambda key: scanned(lambda _, k: site(lax.cond(True, lambda k: fold_in(k, 0), lambda k: fold_in(k, 1), k)), split(key, 3)),
    "deep": lambda key: recursive(key, 8),
    "map": lambda key: lax.map(site, split(key, 3)),
    "map-in-batches": lambda key: lax.map(site, split(key, 6), batch_size=2),
    "fori_loop-fold_in": lambda key: lax.fori_loop(0, 3, lambda i, x: x + site(fold_in(key, i)), 0.0),
    "fori_loop-indexed": lambda key: lax.fori_loop(0, 3, lambda i, x: x + site(split(key, 3)[i]), 0.0),
    "fori_loop-split": lambda key: lax.fori_loop(0, 3, lambda _, s: (split(s[0])[0], s[1] + site(split(s[0])[1])), (key, 0.0))[1],
    "branches": lambda key: lax.cond(True, site, lambda k: site(k, HALF), key),
    "branches-with-scans": lambda key: lax.cond(True, walk, lambda k: scanned(lambda _, k: site(k), split(k, 3))[0], key),
    "switch": lambda key: lax.switch(jnp.array(1), [site, lambda k: site(k, HALF), lambda k: site(split(k)[0])], key),
    "scopes": lambda key: scoped("a", split(key)[0]) + scoped("b", split(key)[1]),
    "scopes-one-key": lambda key: scoped("a", key) + scoped("b", key),
    "scope-and-none": lambda key: site(key) + scoped("a", key),
    "scopes-one-key-in-scopes": lambda key: scoped("a", key, f=lambda k: scoped("b", k) + scoped("a", k)) + scoped("b", key),
    "scopes-one-key-jit": lambda key: jax.jit(lambda k: scoped("a", k))(key) + jax.jit(lambda k: scoped("b", k))(key),
    "scopes-one-key-conds": lambda key: chosen("a", True, key) + chosen("b", False, key),
    "scopes-one-key-mapped": lambda key: scoped("a", split(key, 3), f=mapped) + scoped("b", split(key, 3), f=mapped),
    "scopes-one-key-in-a-vmap": lambda key: jax.vmap(lambda k: scoped("a", k) + scoped("b", k))(split(key, 3)),
    "scopes-one-key-scanned": lambda key: scoped("a", key, f=walk) + scoped("b", key, f=walk),
    "scopes-in-scopes": lambda key: [scoped(s, k, f=lambda k: [scoped(t, kt) for t, kt in zip("ab", split(k), strict=True)]) for s, k in zip("cd", split(key), strict=True)],
    "scopes-halves": lambda key: scoped("a", split(key, 6)[::2], f=mapped) + scoped("b", split(key, 6)[1::2], f=mapped),
    "scopes-mapped": lambda key: scoped("a", split(split(key)[0], 3), f=mapped) + scoped("b", split(split(key)[1], 3), f=mapped),
    "scopes-other-names": lambda key: scoped("a", key) + scoped("b", key, 0.0, "z"),
    "scopes-with_data": lambda key: scoped("a", with_data(split(key)[0])) + scoped("b", with_data(split(key)[1])),
    "scopes-implementations": lambda key: [scoped(s, k) for s, k in zip("ab", implementations(key), strict=True)],
    "scopes-closed-over": lambda key: scoped("a", key) + scoped("b", CONSTANT) + scoped("c", fold_in(CONSTANT, 0)),
    "scopes-jit": lambda key: sum(scoped(s, k, f=jax.jit(site)) for s, k in zip("ab", split(key), strict=True)),
    "scopes-parts": lambda key: [scoped(s, keys, f=mapped) for s, keys in zip("ab", jnp.split(split(key, 6), 2), strict=True)],
    "pmap": lambda key: jax.pmap(site)(split(key, 4)),
    "shard_map": lambda key: over_shards(lambda k, x: site(k[0], x), spec=P("i"))(split(key, 4)),
    "shard_map-fold_in": over_shards(lambda key, x: site(by_index(key, "i"), x)),
    "shard_map-two-axes": over_shards(lambda key, x: site(by_index(key, "i", "j"), x), i=2, j=2),
    "shard_map-while": over_shards(lambda key, x: site(lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, by_index(s[1], "i")), (0, by_index(key, "i")))[1], x)),
    "shard_map-scan": over_shards(lambda key, x: scanned(lambda _, k: site(k, x), split(by_index(key, "i"), 2))[0]),
}  # fmt: skip
