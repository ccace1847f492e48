"""Progress of long loops: the number of steps per call, and the bar shown between calls."""

import importlib.util
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

_FIRST, _CALL_SECONDS = 64, 0.1  # steps of the first call, seconds of a call
_LINE_SECONDS = 10.0  # seconds between two lines in a log file


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


class Report(Protocol):
    """Function that tells how far a loop is: a bar moves, or a line is written.

    Attributes:
        is_shown: Whether anything is shown.
    """

    is_shown: bool

    def __call__(self, num_done: int, phase: str = "", text: str = "") -> None:
        """Tells the number of finished steps, the name of the phase, and more in words."""
        ...


@contextmanager
def show_progress(is_shown: bool | None, num_steps: int, unit: str = "step") -> Iterator[Report]:
    """A context that shows how far a loop is, on standard error.

    In a terminal and in a notebook it is a bar, which says "compiling" until the first step is
    finished. Elsewhere, as in a log file, it is a line every ten seconds.

    Args:
        is_shown: Whether to show it; None is where somebody looks, in a terminal and a notebook.
        num_steps: Number of steps of the loop.
        unit: Name of a step.

    Yields:
        The function to call with the number of finished steps.

    Raises:
        TypeError: if `is_shown` is neither a boolean nor None.
    """
    if is_shown is not None and not isinstance(is_shown, bool | np.bool_):
        raise TypeError(f"progress_bar must be True, False or None, got {is_shown!r}")
    if not (_is_watched() if is_shown is None else is_shown):
        yield _Silence()
    elif not _is_watched():
        yield _Lines(num_steps, unit)
    else:
        with _bar_class()(total=num_steps, unit=unit, desc="compiling") as bar:
            yield _Bar(bar)


def _is_watched() -> bool:
    """Whether standard error is a terminal or shown in a notebook."""
    return sys.stderr is not None and (sys.stderr.isatty() or _is_notebook())


def _is_notebook() -> bool:
    """Whether code runs in a kernel of Jupyter, which somebody may have imported elsewhere."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def _bar_class() -> Any:
    """The class of tqdm for where the program runs: in a notebook it needs ipywidgets."""
    if _is_notebook() and importlib.util.find_spec("ipywidgets"):
        from tqdm.notebook import tqdm
    else:
        from tqdm import tqdm
    return tqdm


class _Silence:
    """Nothing."""

    is_shown = False

    def __call__(self, num_done: int, phase: str = "", text: str = "") -> None:
        pass


class _Bar:
    """A bar of tqdm; a new phase shows at once."""

    is_shown = True

    def __init__(self, bar: Any) -> None:
        self.bar, self.phase = bar, ""

    def __call__(self, num_done: int, phase: str = "", text: str = "") -> None:
        self.bar.set_description(phase, refresh=False)
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.update(num_done - self.bar.n)
        if phase != self.phase:
            self.bar.refresh()
        self.phase = phase


class _Lines:
    """A line on standard error every ten seconds, and one at the end."""

    is_shown = True

    def __init__(self, num_steps: int, unit: str) -> None:
        self.num_steps, self.unit = num_steps, unit
        self.began = self.last = time.monotonic()

    def __call__(self, num_done: int, phase: str = "", text: str = "") -> None:
        now = time.monotonic()
        if num_done < self.num_steps and now - self.last < _LINE_SECONDS:
            return
        self.last = now
        share = f"{num_done} of {self.num_steps} {self.unit}s after {now - self.began:.0f} s"
        print(", ".join(part for part in (phase, share, text) if part), file=sys.stderr, flush=True)
