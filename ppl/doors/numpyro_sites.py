"""Statements of NumPyro as sites of this library: a handler around a model of NumPyro."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as npd
from jax import lax
from numpyro import handlers, primitives
from numpyro.ops.pytree import PytreeTrace

from ppl.doors.numpyro_distribution import has_mask, innermost, wrap
from ppl.doors.observed_sites import observe
from ppl.harvest import jax_core, leaf_values
from ppl.primitives.deterministic import deterministic
from ppl.primitives.factor import factor
from ppl.primitives.sample import sample
from ppl.transforms.scale import scale

Message = dict[str, Any]

_REMEDIES = {
    "param": (
        "A model of ours has no numpyro.param: give it a prior, numpyro.sample, or handlers.lift "
        "around the model; a number that is fixed is an argument of the model."
    ),
    "mutable": "Give the state as an argument of the model, and return the new one.",
    "prng_key": (
        "Random numbers that no site records cannot enter a density: draw them by numpyro.sample."
    ),
}


class Sites(primitives.Messenger):
    """Handler that sows each statement as a site of this library, and stops it there.

    Attributes:
        key: The random key of all sites.
        num_statements: How many statements of NumPyro came.
    """

    def __init__(self, key: Any):
        super().__init__()
        self.key = key
        self.num_statements = 0

    def process_message(self, msg: Message) -> None:
        """The site of one statement; its value becomes the value of the message."""
        self.num_statements += 1
        msg["stop"] = True
        match msg["type"]:
            case "sample":
                msg["value"] = self._sample(msg)
            case "deterministic":
                msg["value"] = deterministic(msg["value"], name=msg["name"])
            case "control_flow":
                msg["value"] = self._control_flow(msg)
            case "plate":
                _check_plate(msg)
            case "subsample" | "inspect":
                pass
            case kind:
                _refuse(msg, f"numpyro.{kind} {msg.get('name', '')!r}", _REMEDIES.get(kind, ""))

    def _sample(self, msg: Message) -> Any:
        name = msg["name"]
        d = msg["fn"]
        value = msg["value"]
        if isinstance(innermost(d), npd.Unit):
            terms = jnp.asarray(d.log_prob(value), jnp.result_type(float))
            self._scaled(msg, lambda _: factor(terms, name=name))
            return value
        if value is None:
            ours = wrap(d.expand_by(msg["kwargs"].get("sample_shape", ())))
            return self._scaled(msg, lambda key: sample(key, ours, name=name), ours.batch_shape)
        if not msg["is_observed"]:
            _refuse(
                msg,
                f"site {name!r} has a value that is no observation, as handlers.substitute and "
                "handlers.replay give one",
                "Take handlers.condition for data, handlers.do for a value without a density.",
            )
        d, data = _align(name, d, value)
        ours = wrap(d, data.dtype)
        return self._scaled(msg, lambda key: observe(key, ours, data, name=name), ours.batch_shape)

    def _scaled(
        self, msg: Message, site: Callable[[Any], Any], batch_shape: Sequence[int] | None = None
    ) -> Any:
        """A site whose log probability the handlers `scale` around it multiply."""
        weight = msg.get("scale")
        if weight is None:
            return site(self.key)
        if np.ndim(weight) and batch_shape is not None:
            weight = jnp.broadcast_to(weight, tuple(batch_shape))
        return scale(site, weight)(self.key)

    def _control_flow(self, msg: Message) -> Any:
        kind = msg["fn"].__name__.removesuffix("_wrapper")
        again, substituted = self._handlers_around(msg, kind)
        if kind == "scan":
            return self._scan(msg, again, substituted)
        if kind == "cond":
            return self._cond(msg, again, substituted)
        return _refuse(msg, f"the construct {kind!r}", "Write it with scan or cond.")

    def _handlers_around(self, msg: Message, kind: str) -> tuple[list[Any], dict[str, Any]]:
        """Handlers between this one and a construct, innermost first, and data of `condition`."""
        stack = primitives._PYRO_STACK
        around = stack[stack.index(self) + 1 :][::-1]
        again = []
        for handler in around:
            if isinstance(handler, handlers.scale | handlers.mask):
                weight: Any = handler.scale if isinstance(handler, handlers.scale) else handler.mask
                if np.ndim(weight):
                    _refuse(
                        msg,
                        f"an array of handlers.{type(handler).__name__} around {kind}",
                        f"Put the handler into the function that {kind} takes.",
                    )
                again.append(handler)
            elif isinstance(handler, handlers.scope | handlers.infer_config):
                again.append(handler)
            elif not isinstance(handler, handlers.condition | handlers.seed):
                _refuse(
                    msg,
                    f"handlers.{type(handler).__name__} around {kind}",
                    f"Put it into the function that {kind} takes.",
                )
        substituted: dict[str, Any] = {}
        for _, data in msg["kwargs"]["substitute_stack"]:
            if not isinstance(data, Mapping):
                _refuse(
                    msg,
                    f"a function as condition_fn= of handlers.condition around {kind}",
                    "Give a dict of data.",
                )
            substituted = {**data, **substituted}  # the innermost comes first and wins
        return again, substituted

    @contextlib.contextmanager
    def _inside(self, key: Any, again: Sequence[Any], substituted: Mapping[str, Any]) -> Any:
        """The handlers for the inside of a construct: no handler outside sees its statements."""
        inner = Sites(key)
        with contextlib.ExitStack() as stack:
            for handler in (handlers.block(), inner, *reversed(again)):
                stack.enter_context(handler)
            if substituted:
                stack.enter_context(handlers.condition(data=dict(substituted)))
            yield
        self.num_statements += inner.num_statements

    def _scan(self, msg: Message, again: Sequence[Any], substituted: Mapping[str, Any]) -> Any:
        f, init, xs, length, reverse = msg["args"]
        if length is None:
            length = np.shape(jax.tree.leaves(xs)[0])[0]
        for name, data in substituted.items():
            if np.shape(data)[:1] != (length,):
                _refuse(
                    msg,
                    f"data of handlers.condition for site {name!r}, of shape {np.shape(data)}, "
                    f"around a scan of length {length}",
                    "Give an entry for each step; what is to be forecast is a scan of its own.",
                )

        def step(carry: Any, x: Any) -> Any:
            key, data, x = x
            with self._inside(key, again, data):
                return f(carry, x)

        keys = jax.random.split(self.key, length)
        data = {name: jnp.asarray(x) for name, x in substituted.items()}
        carry, ys = lax.scan(step, init, (keys, data, xs), length=length, reverse=reverse)
        return (length, None, carry), (PytreeTrace({}), ys)

    def _cond(self, msg: Message, again: Sequence[Any], substituted: Mapping[str, Any]) -> Any:
        pred, *branches, operand = msg["args"]

        def inside(branch: Callable[..., Any]) -> Callable[..., Any]:
            def run(operand: Any) -> Any:
                with self._inside(self.key, again, substituted):
                    return branch(operand)

            return run

        return lax.cond(pred, *map(inside, branches), operand), PytreeTrace({})


def _check_plate(msg: Message) -> None:
    """Check that a plate has all of its elements.

    Raises:
        NotImplementedError: If it takes a random part of them.
    """
    size, subsample_size = msg["args"]
    if msg["value"] is None or (subsample_size is not None and subsample_size != size):
        _refuse(
            msg,
            f"plate {msg['name']!r} takes {subsample_size} of {size} elements",
            "Write the plate without subsample_size=. For minibatches give the rows as arguments, "
            "handlers.scale(scale=num_rows / num_in_batch) around their site, and "
            "inference.svi(..., batch_size=).",
        )


def _align(name: str, d: Any, value: Any) -> tuple[Any, jax.Array]:
    """A distribution and its data with one batch shape and dtype.

    Raises:
        ValueError: If the shapes do not fit, or data are NaN.
    """
    data = leaf_values.as_array(value)
    events = len(d.event_shape)
    batch = data.shape[: data.ndim - events]
    event = data.shape[data.ndim - events :]
    try:
        joint = np.broadcast_shapes(batch, d.batch_shape)
    except ValueError:
        joint = None
    if event != tuple(d.event_shape) or joint is None:
        raise ValueError(
            f"from_numpyro: site {name!r} has data of shape {data.shape}, and a distribution of "
            f"batch shape {tuple(d.batch_shape)} and event shape {tuple(d.event_shape)}."
        )
    if np.prod(joint) > max(data.size / max(np.prod(event), 1), np.prod(d.batch_shape)):
        raise ValueError(
            f"from_numpyro: site {name!r}: data of shape {data.shape} and a distribution of batch "
            f"shape {tuple(d.batch_shape)} broadcast to {joint}, each of them several times. Give "
            "both the same axes, by reshape."
        )
    known = not jax_core.is_traced(data) and jnp.issubdtype(data.dtype, jnp.inexact)
    if known and not has_mask(d) and np.isnan(data).any():
        raise ValueError(
            f"from_numpyro: site {name!r} has data that are NaN. If they are missing, mask them, "
            "by handlers.mask or obs_mask=."
        )
    dtype = jnp.result_type(data.dtype, wrap(d).dtype)
    return d.expand(joint), jnp.broadcast_to(data, joint + event).astype(dtype)


def _refuse(msg: Message, what: str, remedy: str) -> NoReturn:
    raise NotImplementedError(
        f"from_numpyro: {what} cannot be carried over to a model of ours. {remedy}".rstrip()
    )
