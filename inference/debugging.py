"""JAX's settings for debugging, which stop at numbers that inference expects."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def numbers_of_any_kind() -> Iterator[None]:
    """A context, of one thread, where JAX does not stop at NaN and infinities.

    There are some by design, as where nothing is known yet; of others inference tells, by site.
    """
    with jax.debug_nans(False), jax.debug_infs(False):
        yield
