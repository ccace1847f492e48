"""forward_gradient: a function whose gradient is by forward mode, for loops of unknown length."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def forward_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the same values, whose gradient is computed by forward mode.

    Reverse mode, by which samplers differentiate a log density, does not go through a
    `lax.while_loop`, nor through a `lax.fori_loop` whose bounds are arrays. Forward mode does. It
    costs about one evaluation of the function for each element of its arguments, where reverse
    mode costs a few evaluations for all of them: wrap the function that has the loop, not the whole
    model. All that the gradient is to go to has to be an argument; JAX refuses a derivative by a
    value that the function takes from around it.

    Args:
        function: A function of pytrees of arrays that returns a pytree of floating-point arrays.

    Returns:
        The function of the same arguments, by position. It refuses derivatives by `jax.jvp`.

    Raises:
        TypeError: If `function` is not callable; when called, if a result is not floating-point.

    Example:
        >>> import jax, ppl
        >>> def halve(x):
        ...     return jax.lax.while_loop(lambda x: x > 1, lambda x: x / 2, x)
        >>> float(jax.grad(ppl.forward_gradient(halve))(5.0))
        0.125
    """
    if not callable(function):
        raise TypeError(f"forward_gradient: expected a function, got {function!r}.")

    @functools.wraps(function)
    def wrapped(*args: Any) -> Any:
        leaves, tree = jax.tree.flatten(args)
        is_real = [jnp.issubdtype(jnp.result_type(x), jnp.floating) for x in leaves]
        real = [jnp.asarray(x) for x, flag in zip(leaves, is_real, strict=True) if flag]
        others = [x for x, flag in zip(leaves, is_real, strict=True) if not flag]

        def of_leaves(real: Sequence[Any], others: Sequence[Any]) -> Any:
            parts = {True: iter(real), False: iter(others)}
            merged = [next(parts[flag]) for flag in is_real]
            found = function(*jax.tree.unflatten(tree, merged))
            for x in jax.tree.leaves(found):
                if not jnp.issubdtype(jnp.result_type(x), jnp.floating):
                    name = getattr(function, "__name__", repr(function))
                    raise TypeError(
                        f"forward_gradient: {name} returned {x!r}, which is not floating-point and "
                        "has no gradient. Return it from another function."
                    )
            return jax.tree.map(jnp.asarray, found)

        return _evaluate(of_leaves, real, others)

    return wrapped


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _evaluate(function: Callable[..., Any], real: list[Any], others: list[Any]) -> Any:
    return function(real, others)


def _forward(function: Callable[..., Any], real: list[Any], others: list[Any]) -> Any:
    def twice(real: list[Any]) -> tuple[Any, Any]:
        found = function(real, others)
        return found, found

    slopes, values = jax.jacfwd(twice, has_aux=True)(real)
    return values, jax.tree.leaves(slopes)


def _backward(_: Any, slopes: list[Any], cotangents: Any) -> tuple[list[Any], None]:
    """Cotangents of the arguments: slopes are by result, and for each result by argument."""
    outs = jax.tree.leaves(cotangents)
    number = len(slopes) // len(outs)
    found = []
    for i in range(number):
        terms = [jnp.tensordot(ct, slopes[j * number + i], ct.ndim) for j, ct in enumerate(outs)]
        found.append(functools.reduce(jnp.add, terms).astype(slopes[i].dtype))
    return found, None


_evaluate.defvjp(_forward, _backward)
