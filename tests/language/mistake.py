"""A mistake, what its error must name, and the models that it is made with."""

import dataclasses
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax.random import key

import distributions as dist
import ppl

KEY = key(0)
X = jnp.arange(3.0)


def line(key: Any, x: Any) -> Any:
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    return ppl.sample(key, dist.Normal(slope * x, scale), name="y")


def count(key: Any) -> Any:
    rate = ppl.sample(key, dist.Exponential(1.0), name="rate")
    return ppl.sample(key, dist.Poisson(rate), name="n")


VALUES = {"slope": 1.0, "scale": 2.0, "y": X}


@dataclasses.dataclass(frozen=True)
class Mistake:
    """What a modeler writes, and what the error must name: the site, what came, the remedy."""

    title: str
    run: Callable[[], Any]
    names: tuple[str, ...]

    def error(self) -> Exception:
        """The error that the mistake raises."""
        try:
            self.run()
        except Exception as error:  # any at all: the test looks at what it says
            return error
        raise AssertionError(f"{self.title}: no error")

    def message(self) -> str:
        """What is printed of it, the notes included, on lines of 100 characters."""
        error = self.error()
        notes = [note for note in getattr(error, "__notes__", []) if "JAX_TRACEBACK" not in note]
        text = " ".join([str(error).split("\n")[0], *notes])
        return textwrap.fill(f"{type(error).__name__}: {text}", 100)


def add_to(
    table: list[Mistake], title: str, *, names: Sequence[str]
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Puts a function into a table of mistakes."""

    def add(run: Callable[[], Any]) -> Callable[[], Any]:
        table.append(Mistake(title=title, run=run, names=tuple(names)))
        return run

    return add
