"""Progress of long loops: the number of steps per call, and the bar shown between calls."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FIRST, _CALL_SECONDS = 64, 0.1  # steps of the first call, seconds of a call


class Pace:
    """Pace of a loop: the number of steps with which a call takes about 0.1 seconds.

    | Seconds of a call  | Steps of the next call       |
    |--------------------|------------------------------|
    | less than 0.025    | four times as many           |
    | 0.025 to 0.2       | as many                      |
    | more than 0.2      | half as many, one at least   |

    Attributes:
        most: Maximum of steps of a call.
        num_steps: Maximum of steps of the next call.
    """

    def __init__(self, most: int) -> None:
        self.most, self.num_steps = most, min(_FIRST, most)

    @contextmanager
    def call(self) -> Iterator[None]:
        """A context for one call; its duration sets the number of steps of the next."""
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
    """A context with a progress bar, if it is shown.

    Yields:
        Function of the number of finished steps and the last value of `what`; it updates the bar.
    """
    if not is_shown:
        yield lambda _, __: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=num_steps, unit="step") as bar:

        def on_progress(num_done: int, value: float) -> None:
            bar.set_postfix_str(f"{what} {value:.4g}", refresh=False)
            bar.update(num_done - bar.n)

        yield on_progress
