"""Special points of a family, and where derivatives there are not those of one-sided differences.

At each point one parameter, or the value, is 0, 1/2, 1, equal to a parameter, at an end of a
simplex: where formulas branch, and where starts and optimizers stand.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from tests.distributions.cases import Case

SPECIAL = (0.0, 0.5, 1.0, -1.0, 2.0)
STEP, NODES = 1e-3, 5


def _weights(n):
    """Of values at 1, ..., n, for the derivative at 0: the point itself is left out."""
    return np.linalg.solve(np.vander(np.arange(1.0, n + 1), increasing=True).T, np.eye(n)[1])


def _is_simplex(x):
    return x.ndim > 0 and (x >= 0).all() and np.allclose(x.sum(-1), 1)


def _substitutes(parameter):
    found = [parameter, *(np.full_like(parameter, s) for s in SPECIAL)]
    if parameter.ndim and (n := parameter.shape[-1]) > 1:
        vectors = [np.eye(n)[0], np.eye(n)[-1], np.full(n, 1 / n), (np.arange(n) < 2) / 2]
        found += [np.broadcast_to(x, parameter.shape) for x in vectors]
    if parameter.ndim > 1 and parameter.shape[-1] == parameter.shape[-2]:
        found.append(np.broadcast_to(np.eye(parameter.shape[-1]), parameter.shape))
    return found


def _build(case, parameters):
    """The distribution, or None for invalid parameters."""
    try:
        return case.make(**parameters)
    except ValueError:
        return None


def _values(case, d, parameters):
    """Values in the support: of the table, special, and equal to a parameter."""
    shape = case.inside.shape[1:]
    values = [*case.inside[:2], *(np.full(shape, s) for s in SPECIAL)]
    for x in parameters.values():
        if x.ndim <= len(shape) and x.shape in ((), shape, shape[len(shape) - x.ndim :]):
            values.append(np.broadcast_to(x, shape))
    if d.support.is_discrete and all(np.all(x == np.round(x)) for x in case.inside):
        values = [x for x in values if np.all(x == np.round(x))]
    inside = [jnp.asarray(x, float) for x in values]
    return [x for x in inside if np.all(d.support.check(x))]


def points(case: Case, most: int) -> list:
    """Pairs of real parameters and a value."""
    real = {k: np.asarray(v, float) for k, v in case.parameters.items() if _is_real(v)}
    changed = [real] + [real | {k: x} for k in real for x in _substitutes(real[k])[1:]]
    changed += [{k: np.full_like(v, s) for k, v in real.items()} for s in SPECIAL]
    pairs = []
    for parameters in changed:
        d = _build(case, case.parameters | parameters)
        if d is not None and d.event_shape == case.build(float).event_shape:
            pairs += [(parameters, x) for x in _values(case, d, parameters)]
    order = np.random.default_rng(0).permutation(len(pairs))[:most]
    return [pairs[i] for i in sorted(order)]


def _is_real(x):
    return np.issubdtype(np.asarray(x).dtype, np.floating)


def faults(case: Case, most: int = 40, of: str = "log_prob") -> list[str]:
    """Derivatives, first and second, that are not finite or not between one-sided differences.

    They are those of a method, `of`, of a value.

    Values of vectors and matrices are moved in unconstrained space, and those beside atoms not at
    all. Where one-sided differences do not converge, the derivative has to be a number only.
    """
    d = case.build(float)
    is_moved = not (d.support.is_discrete or d.support.has_atoms)
    bijector = d.bijector if is_moved and d.event_shape else None

    def position(parameters, value):
        y = value if bijector is None else bijector.inverse(value)
        return ravel_pytree((parameters, y if is_moved else jnp.zeros(0)))

    pairs = points(case, most)
    unravel = position(*pairs[0])[1]
    at = np.stack([position(*pair)[0] for pair in pairs])
    kept = np.flatnonzero(np.isfinite(at).all(-1))
    at, pairs = at[kept], [pairs[i] for i in kept]
    if not pairs:
        return []

    def log_prob(x, value):
        parameters, y = unravel(x)
        d = case.make(**case.parameters | parameters)
        y = d.bijector.forward(y) if bijector is not None else y if is_moved else value
        return jnp.sum(getattr(d, of)(y))

    (count, size), values = at.shape, jnp.stack([value for _, value in pairs])
    shifts = np.arange(1, NODES + 1) * STEP * np.array([[-1], [1]])
    near = at[:, None, None, None] + np.eye(size)[:, None, None] * shifts[..., None]
    both = jax.jit(jax.vmap(jax.vmap(jax.value_and_grad(log_prob), (0, None))))
    stacked = jnp.concatenate([at[:, None], near.reshape(count, -1, size)], 1)
    log_p, slopes = (np.asarray(x) for x in both(stacked, values))
    second = np.asarray(jax.jit(jax.vmap(jax.hessian(log_prob)))(at, values))
    near_shape = (count, size, 2, NODES)
    near_log_p, near_slopes = log_p[:, 1:].reshape(near_shape), slopes[:, 1:]
    near_slopes = near_slopes.reshape(*near_shape, size)

    def is_valid(pair, i, side):
        moved = unravel(jnp.asarray(at[pair]).at[i].add(shifts[side, -1]))[0]
        for k, x in moved.items():
            moved[k] = x / x.sum(-1, keepdims=True) if _is_simplex(pairs[pair][0][k]) else x
        return _build(case, case.parameters | moved) is not None

    found = []
    for n in range(count):
        where = f"{pairs[n][0]} at {np.asarray(values[n]).tolist()}"
        if np.isnan(log_p[n, 0]) or not np.isfinite(slopes[n, 0]).all():
            found.append(f"{slopes[n, 0]} of {log_p[n, 0]}: {where}")
        if not np.isfinite(log_p[n, 0]):
            continue
        for i in range(size):
            sides = [s for s in (0, 1) if np.isfinite(near_log_p[n, i, s]).all()]
            sides = [s for s in sides if is_valid(n, i, s)]
            signs = np.array([1 if s else -1 for s in sides])
            wrong, is_smooth = _compare(slopes[n, 0, i], near_log_p[n, i, sides], signs)
            found += [f"{i}: {wrong}: {where}"] if wrong else []
            for j in range(size) if is_smooth else ():
                wrong, _ = _compare(second[n, i, j], near_slopes[n, i, sides, :, j], signs)
                found += [f"{i}, {j}: {wrong}: {where}"] if wrong else []
    return found


def _compare(derivative, near, signs):
    """What is wrong with a derivative, if anything; and whether both sides agree in it."""
    if not len(signs):
        return None, False
    fine, coarse = (signs * (near[:, :n] @ _weights(n)) / STEP for n in (NODES, 3))
    size, error = 1 + np.abs(fine).max(), np.abs(fine - coarse).max()
    if not np.isfinite(derivative):
        return f"{derivative}, not {fine}", False
    if not error < 0.01 * size:
        return None, False
    slack = 2e-6 * size + error
    is_between = fine.min() - slack <= derivative <= fine.max() + slack
    return None if is_between else f"{derivative}, not {fine}", np.ptp(fine) < 1e-4 * size
