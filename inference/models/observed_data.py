"""Checksum of the observed data of a model, for comparisons of models."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from inference.common.leaf_names import named_leaves
from inference.runtime.compiled_program import compile_once
from ppl.transforms.likelihood import Likelihood


def digest_data(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[int | None, int | None]:
    """Checksum of all observed numbers in ascending order, and how many there are.

    It is equal for equal numbers in any dtype, order, shape and partition into sites. Entries that
    are missing do not count. Both are `None` if the model has no observed site, or observes one in
    part by `ppl.impute`.
    """
    try:
        likelihood = Likelihood.of(model, args, kwargs)
    except ValueError:
        return None, None
    missing, data, imputed = compile_once(_look, likelihood, splits_results=True)(likelihood)
    if imputed:
        return None, None
    flags = dict(named_leaves(missing))
    numbers = [_present(x, flags.get(name)) for name, x in named_leaves(data)]
    observed = np.sort(np.concatenate(numbers)) + np.float32(0)  # no -0
    return zlib.crc32(observed.tobytes()), observed.size


def _look(likelihood: Likelihood) -> tuple[Any, Any, Any]:
    """Flags of missing entries, the data, and flags of sites that are observed in part."""
    values = likelihood.any_values()
    return likelihood.missing(values), likelihood.observed(values), likelihood.imputed(values)


def _present(values: Any, is_missing: Any) -> np.ndarray:
    """Numbers that are not missing, flat and in float32; complex ones as two."""
    x: Any = np.asarray(values)
    x = np.stack([x.real, x.imag], -1) if np.iscomplexobj(x) else x
    if is_missing is not None:
        x = x[~np.asarray(is_missing)]
    return np.asarray(x, np.float32).ravel()
