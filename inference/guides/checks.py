"""Checks of a guide: its type, and the range of its scales and sizes."""

from typing import Any

import numpy as np

from inference.common.argument_checks import check_count, check_flags, check_scalar, short_repr
from inference.guides.by_site import BySite

_COUNTS = {"rank": 1, "num_layers": 1, "num_bins": 2}  # least value of each field


def check_guide(guide: Any) -> None:
    """Raises an error unless `guide` is a guide with valid fields or a function.

    Raises:
        TypeError: if it is neither a guide nor a function, or a field has another type.
        ValueError: if a scale or a size is out of range.
    """
    if isinstance(guide, type) or not (_is_guide(guide) or callable(guide)):
        raise TypeError(
            f"guide must be a guide such as MeanField(), or a function of a key, {_got(guide)}"
        )
    if _is_guide(guide):
        _check_numbers(guide)


def _check_numbers(guide: Any) -> None:
    who = type(guide).__name__
    scale = getattr(guide, "init_scale", 1.0)
    check_scalar(f"init_scale of {who}", scale, float, "positive", lambda x: 0 < x < np.inf)
    check_flags(guide)
    for name, least in _COUNTS.items():
        if hasattr(guide, name):
            check_count(f"{name} of {who}", getattr(guide, name), least=least)
    sizes = getattr(guide, "hidden_sizes", ())
    if not isinstance(sizes, tuple):
        raise TypeError(f"hidden_sizes of {who} must be a tuple such as (64, 64), got {sizes!r}")
    for size in sizes:
        check_count(f"each of hidden_sizes of {who}", size, least=1)
    if isinstance(guide, BySite):
        _check_parts(guide)


def _check_parts(guide: BySite) -> None:
    parts = {", ".join(names): part for names, part in guide.guides.items()}
    for name, part in (parts | {"all the rest": guide.rest}).items():
        if not _is_guide(part):
            raise TypeError(
                f"the guide of {name} in BySite must be a guide such as MeanField(), {_got(part)}"
            )
        _check_numbers(part)


def _is_guide(guide: Any) -> bool:
    has_methods = all(hasattr(guide, x) for x in ("init", "sample", "entropy"))
    return has_methods and not isinstance(guide, type)


def _got(guide: Any) -> str:
    made = f"; did you mean {guide.__name__}()?" if isinstance(guide, type) else ""
    return f"got {short_repr(guide)}{made}"
