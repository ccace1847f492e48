"""Sites as models of other libraries have them: data stand in the model, and axes have names."""

from typing import Any

from ppl.harvest.sowing import bind_site
from ppl.primitives.sample import sow_draw
from ppl.primitives.site_kinds import DETERMINISTIC, OBSERVED, RANDOM
from ppl.transforms.label import Dimension

Labels = tuple[Dimension | None, ...]


def sample_latent(key: Any, dist: Any, *, name: str, labels: Labels = ()) -> Any:
    """A latent site.

    Args:
        key: The random key of the model.
        dist: A distribution.
        name: The name of the site.
        labels: Dimensions of the last axes of the value, one for each; None for one without a name.

    Returns:
        A draw.
    """
    return sow_draw(key, dist, name=name, labels=labels)


def observe(key: Any, dist: Any, value: Any, *, name: str, labels: Labels = ()) -> Any:
    """An observed site, as `condition` makes one of a latent site.

    Args:
        key: The random key of the model.
        dist: A distribution.
        value: The data, of the shape and dtype of a draw.
        name: The name of the site.
        labels: Dimensions of the last axes of the value, one for each; None for one without a name.

    Returns:
        The data.
    """
    return bind_site(
        value,
        tag=RANDOM,
        name=name,
        mode="append",
        extra=dist,
        note=OBSERVED,
        key=key,
        labels=labels,
    )


def record(value: Any, *, name: str, labels: Labels = ()) -> Any:
    """A deterministic site.

    Args:
        value: The value, a pytree of arrays.
        name: The name of the site.
        labels: Dimensions of the last axes of the value, one for each; None for one without a name.

    Returns:
        The value, its leaves as arrays.
    """
    return bind_site(
        value,
        tag=DETERMINISTIC,
        name=name,
        mode="append",
        note=DETERMINISTIC,
        where="deterministic",
        labels=labels,
    )
