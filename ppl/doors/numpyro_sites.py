"""Statements of NumPyro as sites of this library: a handler around a model of NumPyro."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as npd
from jax import lax
from numpyro import handlers, primitives
from numpyro.ops.pytree import PytreeTrace

from ppl.doors.numpyro_distribution import has_mask, innermost, wrap
from ppl.harvest import jax_core, leaf_values
from ppl.primitives.deterministic import sow_value
from ppl.primitives.factor import factor
from ppl.primitives.sample import Labels, sow_data, sow_draw
from ppl.transforms.scale import scale

Message = dict[str, Any]

_REMEDIES = {
    "param": (
        "Without a prior it has no density: give it one, by numpyro.sample or by handlers.lift "
        "around the model. A fixed number is an argument of the model; networks are for ppl.module "
        "in a model of ours."
    ),
    "mutable": (
        "State that changes while a model runs is no part of a density: give it as an argument."
    ),
    "prng_key": (
        "Random numbers that no site records cannot enter a density: draw them by numpyro.sample."
    ),
}


class Sites(primitives.Messenger):
    """Handler that sows each statement as a site of this library, and stops it there.

    Attributes:
        key: The random key of all sites.
        names: Names of sites so far.
        plates: Sizes of plates by name, which are the names of dimensions.
        num_statements: How many statements of NumPyro came.
    """

    def __init__(self, key: Any, names: Set[str] = frozenset(), plates: Any = None):
        super().__init__()
        self.key = key
        self.names = set(names)
        self.plates: dict[str, int] = {} if plates is None else plates
        self.num_statements = 0

    def process_message(self, msg: Message) -> None:
        """The site of one statement; its value becomes the value of the message."""
        self.num_statements += 1
        msg["stop"] = True
        match msg["type"]:
            case "sample":
                msg["value"] = self._sample(msg)
            case "deterministic":
                msg["value"] = self._deterministic(msg)
            case "control_flow":
                msg["value"] = self._control_flow(msg)
            case "plate":
                _check_plate(msg)
            case "subsample" | "inspect":
                pass
            case "prng_key" if msg["kwargs"]["rng_key"] is not None or _is_unconditioned():
                pass  # a seed that the model sets, or nobody needs the key
            case kind:
                name = repr(msg["name"]) if "name" in msg else "()"
                _refuse(f"the statement {kind} {name}", _REMEDIES.get(kind, ""))

    def _sample(self, msg: Message) -> Any:
        name = msg["name"]
        d = msg["fn"]
        value = msg["value"]
        self._claim(name)
        if isinstance(innermost(d), npd.Unit):
            terms = jnp.asarray(d.log_prob(value), jnp.result_type(float))
            self._scaled(msg, lambda _: factor(terms, name=name), terms.shape)
            return value
        if value is None and isinstance(innermost(d), npd.Delta):
            return self._point(msg)
        if value is None:
            ours = wrap(d.expand_by(msg["kwargs"].get("sample_shape", ())))
            labels = self._labels(msg, ours.batch_shape, len(ours.event_shape))
            return self._scaled(
                msg,
                lambda key: sow_draw(key, ours, name=name, labels=labels),
                ours.batch_shape,
            )
        if not msg["is_observed"]:
            _refuse(
                f"the value of site {name!r} that is not data, as handlers.substitute and "
                "handlers.replay give it",
                "Take handlers.condition for data, handlers.do for a value without a density.",
            )
        d, data = _align(name, d, value)
        ours = wrap(d, data.dtype)
        labels = self._labels(msg, ours.batch_shape, len(ours.event_shape))
        return self._scaled(
            msg,
            lambda key: sow_data(key, ours, data, name=name, labels=labels),
            ours.batch_shape,
        )

    def _point(self, msg: Message) -> Any:
        """A latent site of a point mass, which is deterministic.

        Raises:
            NotImplementedError: If the point has a weight.
        """
        d = msg["fn"].expand_by(msg["kwargs"].get("sample_shape", ()))
        weight = innermost(d).log_density
        if jax_core.is_traced(weight) or np.any(weight):
            _refuse(
                f"the log_density of numpyro.Delta at site {msg['name']!r}",
                "Write it by numpyro.factor, and the site by numpyro.deterministic.",
            )
        value = jnp.broadcast_to(innermost(d).v, d.batch_shape + d.event_shape)
        return sow_value(
            value, name=msg["name"], labels=self._labels(msg, d.batch_shape, d.event_dim)
        )

    def _deterministic(self, msg: Message) -> Any:
        value = msg["value"]
        self._claim(msg["name"])
        num_plates = max((-frame.dim for frame in msg["cond_indep_stack"]), default=0)
        # With further axes, nothing tells those of plates from those of an event.
        is_batch = jax.tree_util.all_leaves([value]) and np.ndim(value) == num_plates
        labels = self._labels(msg, np.shape(value)) if is_batch else ()
        return sow_value(value, name=msg["name"], labels=labels)

    def _claim(self, name: str) -> None:
        """Note the name of a site.

        Raises:
            ValueError: If a site or a plate has it.
        """
        if name in self.names or name in self.plates:
            kind = "sites" if name in self.names else "a plate and a site"
            raise ValueError(
                f"from_numpyro: {kind} have the name {name!r}. Names are unique in a model of "
                "NumPyro: rename one, or put handlers.scope around its part."
            )
        self.names.add(name)

    def _labels(self, msg: Message, batch_shape: Sequence[int], num_event_axes: int = 0) -> Labels:
        """Plates as names of the axes of a batch; events have none."""
        frames = {frame.dim: frame.name for frame in msg["cond_indep_stack"]}
        found = []
        for axis, size in enumerate(batch_shape):
            name = frames.get(axis - len(batch_shape))
            if name is None or name in self.names or self.plates.setdefault(name, size) != size:
                name = None
            found.append(name and (name, None))
        return (*found, *[None] * num_event_axes) if any(found) else ()

    def _scaled(self, msg: Message, site: Callable[[Any], Any], batch_shape: Sequence[int]) -> Any:
        """A site whose log probability the handlers `scale` around it multiply."""
        weight = msg.get("scale")
        if weight is None:
            return site(self.key)
        if np.ndim(weight):
            weight = jnp.broadcast_to(weight, tuple(batch_shape))
        return scale(site, weight)(self.key)

    def _control_flow(self, msg: Message) -> Any:
        kind = msg["fn"].__name__.removesuffix("_wrapper")
        if kind == "scan":
            return self._scan(msg)
        if kind == "cond":
            return self._cond(msg)
        return _refuse(f"the construct {kind!r}", "Write it with scan or cond.")

    def _handlers_around(self, kind: str) -> list[Any]:
        """Handlers between this one and a construct, outermost first, but for `condition`."""
        stack = primitives._PYRO_STACK
        again = []
        for handler in stack[stack.index(self) + 1 :]:
            if isinstance(handler, handlers.scale | handlers.mask):
                weight: Any = handler.scale if isinstance(handler, handlers.scale) else handler.mask
                if np.ndim(weight):
                    _refuse(
                        f"an array of handlers.{type(handler).__name__} around {kind}",
                        f"Put the handler into the function that {kind} takes.",
                    )
                again.append(handler)
            elif isinstance(handler, handlers.scope | handlers.infer_config):
                again.append(handler)
            elif not isinstance(handler, handlers.condition | handlers.seed):
                _refuse(
                    f"handlers.{type(handler).__name__} around {kind}",
                    f"Put it into the function that {kind} takes.",
                )
        return again

    @contextlib.contextmanager
    def _inside(
        self, key: Any, names: Set[str], again: Sequence[Any], data: Callable[[Message], Any]
    ) -> Iterator[None]:
        """The handlers for the inside of a construct: no handler outside sees its statements."""
        inner = Sites(key, names, self.plates)
        given = handlers.condition(condition_fn=data)
        with contextlib.ExitStack() as stack:
            for handler in (handlers.block(), inner, *again, given):
                stack.enter_context(handler)
            yield
        self.names |= inner.names

    def _scan(self, msg: Message) -> Any:
        f, init, xs, length, reverse = msg["args"]
        if length is None:
            length = np.shape(jax.tree.leaves(xs)[0])[0]
        again = self._handlers_around("scan")
        names = frozenset(self.names)
        data = _data_around(msg, "scan")
        by_step = {site: jnp.asarray(x) for site, x in data.items() if _length(x) == length}

        def step(carry: Any, x: Any) -> Any:
            key, now, x = x

            def look_up(site: Message) -> Any:
                name = site["name"]
                if name in data and name not in now:
                    _refuse(
                        f"data of shape {np.shape(data[name])} for site {name!r} in a scan of "
                        f"length {length}",
                        "Give an entry for each step; what is to be forecast is a scan of its own.",
                    )
                return now.get(name)

            with self._inside(key, names, again, look_up):
                return f(carry, x)

        keys = jax.random.split(self.key, length)
        carry, ys = lax.scan(step, init, (keys, by_step, xs), length=length, reverse=reverse)
        return (length, None, carry), (PytreeTrace({}), ys)

    def _cond(self, msg: Message) -> Any:
        pred, *branches, operand = msg["args"]
        again = self._handlers_around("cond")
        names = frozenset(self.names)
        data = _data_around(msg, "cond")

        def inside(branch: Callable[..., Any]) -> Callable[..., Any]:
            def run(operand: Any) -> Any:
                with self._inside(self.key, names, again, lambda site: data.get(site["name"])):
                    return branch(operand)

            return run

        return lax.cond(pred, *map(inside, branches), operand), PytreeTrace({})


def _data_around(msg: Message, kind: str) -> dict[str, Any]:
    """Data that the handlers `condition` around a construct give; the innermost wins."""
    found: dict[str, Any] = {}
    for _, data in msg["kwargs"]["substitute_stack"]:
        if not isinstance(data, Mapping):
            _refuse(
                f"a function as condition_fn= of handlers.condition around {kind}",
                "Give a dict of data.",
            )
        found = {**data, **found}
    return found


def _length(x: Any) -> int | None:
    return np.shape(x)[0] if np.ndim(x) else None


def _is_unconditioned() -> bool:
    """Whether `handlers.uncondition` asks for a key, which no site here needs."""
    return any(isinstance(x, handlers.uncondition) for x in primitives._PYRO_STACK)


def _check_plate(msg: Message) -> None:
    """Check that a plate has all of its elements.

    Raises:
        NotImplementedError: If it takes a random part of them.
    """
    size, subsample_size = msg["args"]
    if msg["value"] is None or (subsample_size is not None and subsample_size != size):
        _refuse(
            f"plate {msg['name']!r} with a random {subsample_size} of its {size} elements",
            "The density would be random. Write it without subsample_size=. For minibatches put "
            "handlers.scale(scale=num_rows / num_in_batch) around the site, and give the rows by "
            "inference.svi(..., batch=).",
        )


def _align(name: str, d: Any, value: Any) -> tuple[Any, jax.Array]:
    """A distribution and its data with one batch shape and dtype.

    Raises:
        ValueError: If the shapes do not fit, or data are NaN.
    """
    is_known = not jax_core.is_traced(value)
    if is_known and not has_mask(d) and np.isnan(np.asarray(value, float)).any():
        raise ValueError(
            f"from_numpyro: site {name!r} has data that are NaN. If they are missing, mask them, "
            "by handlers.mask or obs_mask=."
        )
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
            f"batch shape {tuple(d.batch_shape)} and event shape {tuple(d.event_shape)}. Give data "
            "of the site's shape, or the size of its plate by an argument of the model."
        )
    if np.prod(joint) > max(np.prod(batch), np.prod(d.batch_shape)):
        raise ValueError(
            f"from_numpyro: site {name!r}: data of shape {data.shape} and a distribution of batch "
            f"shape {tuple(d.batch_shape)} broadcast to {joint}, each of them several times. Give "
            "both the same axes, by reshape."
        )
    dtype = jnp.result_type(data.dtype, wrap(d).dtype)
    return d.expand(joint), jnp.broadcast_to(data, joint + event).astype(dtype)


def _refuse(what: str, remedy: str) -> NoReturn:
    raise NotImplementedError(f"from_numpyro: cannot carry over {what}. {remedy}".rstrip())
