"""Long loops in calls of some steps each: how many, and what is shown between them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FIRST, _CALL_SECONDS = 64, 0.1


class Pace:
    """So many steps a call that it takes about as long as one should wait for a sign of life.

    Attributes:
        num_steps: Steps of the next call, at most.
    """

    def __init__(self, most: int) -> None:
        self.most, self.num_steps = most, min(_FIRST, most)

    @contextmanager
    def call(self) -> Iterator[None]:
        """A context for one call, whose time decides about the next."""
        began = time.monotonic()
        yield
        seconds = time.monotonic() - began
        if seconds < _CALL_SECONDS / 4:
            self.num_steps = min(4 * self.num_steps, self.most)
        elif seconds > 2 * _CALL_SECONDS:
            self.num_steps = max(1, self.num_steps // 2)


@contextmanager
def progress_bar(
    is_shown: bool, num_steps: int, what: str
) -> Iterator[Callable[[int, float], None]]:
    """A function to be told the number of finished steps and the last value of `what`."""
    if not is_shown:
        yield lambda _, __: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=num_steps, unit="step") as bar:

        def on_progress(num_done: int, value: float) -> None:
            bar.set_postfix_str(f"{what} {value:.4g}", refresh=False)
            bar.update(num_done - bar.n)

        yield on_progress
