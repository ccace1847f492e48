"""module: a network within a model, with random weights or parameters to be fitted."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from ppl.common import distribution_protocol
from ppl.common.networks import matching, take_apart
from ppl.harvest.harvesting import nest
from ppl.primitives.param import param
from ppl.primitives.sample import check_key, check_name, sample

Rule = Callable[[str, Any], Any]


def module(
    key: jax.Array,
    net: Any,
    prior: Any = None,
    *,
    name: str,
    inputs: tuple[Any, ...] = (),
) -> Any:
    """A network whose parameters are random variables, or parameters that `inference.svi` fits.

    Each array of the network is a site of its own in the scope `name`, or with ``prior=None`` a
    `param`. Sites have the names of their places in the network, such as ``"layers.0.weight"``.

    | `net` | gives |
    |---|---|
    | a module of Equinox, or any pytree with arrays of floats | `net` with other arrays |
    | a module of Flax NNX | `net` with other variables of type `Param` |
    | a module of Flax Linen, with `inputs` | ``f(*args) = net.apply(variables, *args)`` |
    | a pair `(init, apply)`, as of Haiku, with `inputs` | ``f(*args) = apply(params, *args)`` |

    Args:
        key: A random key.
        net: The network.
        prior: The distribution of the parameters:

            - None: no distribution. They are a `param`, and start at the values of the network.
            - a distribution: the elements of each array are independent draws of it;
            - a dict of distributions by path or by the beginning of a path, such as
              ``{"layers.0": d, "layers.1.weight": e, ...}``; the longest matching key counts;
            - a function of a path and an array, which gives the distribution of the array.

            In a dict or from a function, None makes an array a `param`. A distribution with the
            shape of the array is used unchanged; a smaller distribution is repeated along leading
            axes.
        name: The scope of the sites, unique within the model.
        inputs: Inputs of a network that has an `init`, which tell its shapes. Its parameters start
            at ``init(jax.random.key(0), *inputs)``.

    Returns:
        The network with its parameters in place, ready to be called. What a call changes in the
        network itself, such as running means, is lost unless `state` carries it.

    Raises:
        TypeError: If `net` is not a network, or a prior is not a distribution.
        ValueError: If a prior has another shape than its array, a path is unknown, or an array has
            no prior.

    Example:
        >>> import jax, jax.numpy as jnp, ppl, distributions as dist
        >>> net = {"in": jnp.zeros((2, 8)), "out": jnp.zeros((8, 3))}  # or an equinox.nn.MLP
        >>> def model(key, x):
        ...     f = ppl.module(key, net, dist.Normal(0.0, 1.0), name="f")
        ...     mean = jnp.tanh(x @ f["in"]) @ f["out"]
        ...     return ppl.sample(key, dist.Normal(mean, 0.1), name="y")
        >>> jax.tree.map(jnp.shape, ppl.simulate(model)(jax.random.key(0), jnp.ones((5, 2))))
        {'f': {'in': (2, 8), 'out': (8, 3)}, 'y': (5, 3)}
    """
    check_name("module", name)
    check_key(f"module {name!r}", key)
    network = take_apart(net, inputs, f"module {name!r}")
    rule = _rule_of(prior, network.parameters, f"module {name!r}")

    def draw(key: jax.Array) -> dict[str, Any]:
        return {path: _draw(key, path, x, rule, name) for path, x in network.parameters.items()}

    return network.rebuild(nest(draw, scope=name)(key))


def _draw(key: jax.Array, path: str, array: Any, rule: Rule, name: str) -> Any:
    where = f"module {name!r}: the prior of {path!r}"
    d = rule(path, array)
    if d is None:
        return param(array, name=path)
    if not distribution_protocol.is_distribution(d):
        raise TypeError(f"{where} must be a distribution, or None for a param, got {d!r}.")
    shape = distribution_protocol.shape_of(d)
    num_new = array.ndim - len(shape or ())
    if shape is None or num_new < 0 or array.shape[num_new:] != shape:
        got = "several arrays" if shape is None else f"shape {shape}"
        raise ValueError(
            f"{where} must have draws of shape {array.shape}, or of its last axes, got {got}."
        )
    whole = distribution_protocol.repeat(d, array.shape[:num_new])
    return sample(key, whole, name=path).astype(array.dtype)


def _rule_of(prior: Any, parameters: Mapping[str, Any], where: str) -> Rule:
    """The function from a path and an array to a distribution, or None for a parameter."""
    if prior is None or distribution_protocol.is_distribution(prior):
        return lambda path, array: prior
    if isinstance(prior, Mapping):
        _check_paths(prior, parameters, where)
        return lambda path, array: prior[matching(prior, path)]
    if callable(prior) and not isinstance(prior, type):
        return prior
    raise TypeError(
        f"{where}: prior must be a distribution, a dict of distributions by path, a function of a "
        f"path and an array, or None for a param, got {prior!r}."
    )


def _check_paths(prior: Mapping[str, Any], parameters: Mapping[str, Any], where: str) -> None:
    """Check that each path has a distribution, and each distribution a path.

    Raises:
        ValueError: If not.
    """
    found = {path: matching(prior, path) for path in parameters}
    listed = ", ".join(map(repr, parameters))
    unused = [name for name in prior if name not in found.values()]
    if unused:
        raise ValueError(
            f"{where}: prior has {', '.join(map(repr, unused))}, but the arrays of the network are "
            f"{listed}."
        )
    without = [path for path, name in found.items() if name is None]
    if without:
        raise ValueError(
            f"{where}: prior has no distribution for {', '.join(map(repr, without))}. Give one, or "
            "None to make it a param."
        )
