"""Sites whose data stand in the model, as other libraries have them."""

from typing import Any

from ppl.harvest.sowing import bind_site
from ppl.primitives.site_kinds import OBSERVED, RANDOM


def observe(key: Any, dist: Any, value: Any, *, name: str) -> Any:
    """An observed site, as `condition` makes one of a latent site.

    Args:
        key: The random key of the model.
        dist: A distribution.
        value: The data, of the shape and dtype of a draw.
        name: The name of the site.

    Returns:
        The data.
    """
    return bind_site(
        value, tag=RANDOM, name=name, mode="append", extra=dist, note=OBSERVED, key=key
    )
