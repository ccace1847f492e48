"""The table of families: parameters, scipy's oracle, values inside and outside of the support."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import distributions as dist

SCALAR = np.array([0.25, 0.5, 1.0, 1.75, 3.0])
UNIT = np.array([0.0625, 0.25, 0.5, 0.875, 0.9375])
COUNTS = np.array([0, 1, 2, 3, 5])
INFINITE = (np.inf, -np.inf, np.nan)
BATCH = np.array([0.5, 2.0])
PAIRS = np.stack([SCALAR, SCALAR[::-1] + 0.5], 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One row of the table: a distribution, its oracle, and values inside and outside its support.

    Args:
        name: The family, and after a comma what is special about the case.
        signature: The parameters of the family as users write them: the lock on its public
            signature, in the first case of the family only.
        make: A function from `parameters` to the distribution.
        parameters: The arguments of `make` and of `oracle`.
        oracle: A function from the parameters, in float64, to scipy's distribution or a double.
        inside: Values of positive density, of shape `(5, *batch_shape, *event_shape)`.
        outside: Events without a density.
        moments: Whether the mean and the variance are compared with the oracle's.
        tolerance32: The relative and absolute tolerance in float32.
        excluded: The tests that leave the case out, each with the reason.
    """

    name: str
    signature: str | None = None
    make: Callable[..., dist.Distribution]
    parameters: dict[str, Any]
    oracle: Callable[..., Any]
    inside: np.ndarray
    outside: tuple[Any, ...]
    moments: bool = True
    tolerance32: float = 1e-5
    excluded: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def family(self) -> str:
        """The public name of the distribution."""
        return self.name.split(",")[0]

    def build(self, dtype: Any = np.float32) -> dist.Distribution:
        return self.make(**self.given(dtype))

    def tells(self, method: str) -> bool:
        """Whether it is of a number, and the oracle has a method."""
        return self.is_number and hasattr(self.truth(float), method)

    @functools.cached_property
    def is_number(self) -> bool:
        """Whether one draw is a number."""
        return not self.build().event_shape

    def given(self, dtype: Any) -> dict[str, Any]:
        """The parameters in a dtype; integers stay what they are."""
        return {name: cast(value, dtype) for name, value in self.parameters.items()}

    def truth(self, dtype: Any) -> Any:
        """The oracle at the parameters as they are rounded in a dtype."""
        return self.oracle(**{k: np.asarray(v, float) for k, v in self.given(dtype).items()})

    def values(self, dtype: Any) -> Any:
        return cast(self.inside, dtype)


def cast(value: Any, dtype: Any) -> Any:
    array = np.asarray(value)
    return jnp.asarray(array, dtype if np.issubdtype(array.dtype, np.floating) else int)


def log_probs(oracle: Any, values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, float)
    return oracle.logpdf(values) if hasattr(oracle, "logpdf") else oracle.logpmf(values)


def without(cases: list[Case], what: str) -> list[Case]:
    """The cases of which something is not excluded."""
    return [case for case in cases if what not in case.excluded]
