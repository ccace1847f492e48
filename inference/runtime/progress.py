"""Progress of long loops: the number of steps per call, and the bar shown between calls."""

import dataclasses
import importlib.util
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_FIRST = 64  # steps of the first call
_CALL_SECONDS = 0.1  # of each later call
# Seconds between two lines in a log file, at first and as a share of the time so far.
_LINE_SECONDS = 10.0
_LINE_GROWTH = 0.1
_LIVE_FORMAT = "{percentage:3.0f}%|{bar}| {desc}"  # the bar takes the room that is left


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


@dataclasses.dataclass(frozen=True)
class ProgressReport:
    """News of a run, which a callback given as `progress` gets.

    A number is NaN or 0 if it is not known yet, or if the algorithm does not have it.

    Attributes:
        phase: Name of the phase: of `mcmc`, ``"warm-up"`` or ``"draws"``.
        num_done: Number of iterations that are finished, the mean over chains.
        num_iterations: Number of iterations of a chain; with `until`, up to the next look.
        num_chains: Number of chains.
        num_divergent: Number of transitions after warm-up that diverged, of all chains.
        step_size: Median step size of the chains.
        ess: Minimum over coordinates of the effective sample size of the mean, of all chains.
        rhat: Maximum over coordinates of split R-hat.
        seconds: Seconds since the run began.
        seconds_left: Seconds that are left, a guess.
        text: More in words.
    """

    phase: str = ""
    num_done: int = 0
    num_iterations: int = 0
    num_chains: int = 0
    num_divergent: int = 0
    step_size: float = math.nan
    ess: float = math.nan
    rhat: float = math.nan
    seconds: float = 0.0
    seconds_left: float = math.nan
    text: str = ""

    def describe(self) -> str:
        """Step size and divergences in words, if they are known."""
        if math.isnan(self.step_size):
            return self.text
        return f"step size {self.step_size:.2g}, {self._divergences()}"

    def describe_all(self) -> str:
        """One line: chains, step size, divergences, ESS, R-hat and the time left, as known."""
        parts = [f"{self.num_chains} chain{'s' * (self.num_chains > 1)}"] * (self.num_chains > 0)
        if not math.isnan(self.step_size):
            parts += [self._divergences(), f"step {self.step_size:.2g}"]
        elif self.text:
            parts += [self.text]
        if not math.isnan(self.ess):
            parts += [f"ESS {self.ess:.0f}"]
        if not math.isnan(self.rhat):
            parts += [f"R-hat {self.rhat:.3f}"]
        if self.seconds_left > 0:
            parts += [f"{_duration(self.seconds_left)} left"]
        return ", ".join(parts)

    def _divergences(self) -> str:
        return f"{self.num_divergent} divergence{'s' * (self.num_divergent != 1)}"


@dataclasses.dataclass(frozen=True)
class Live:
    """One line about a run while it runs, for `progress`.

    Beside the bar are the number of chains, the divergences, the median step size, the smallest
    effective sample size, the largest R-hat and the time left. A terminal and a notebook show a bar
    that moves; anything else, as a log file, gets a line every ten seconds at first, and later
    whenever the time has grown by a tenth.

    ESS and R-hat are computed from batch means of unconstrained coordinates, of up to 64 chains and
    256 coordinates. At the end, trust the summary, which also looks at ranks and tails of all
    sites.

    Attributes:
        seconds: Seconds between two looks at the draws.
    """

    seconds: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float):
            raise TypeError(f"seconds of Live must be a positive number, got {self.seconds!r}")
        if not 0 < self.seconds < math.inf:
            raise ValueError(f"seconds of Live must be a positive number, got {self.seconds!r}")


Shown = bool | None | Live | Callable[[ProgressReport], object]


class Report:
    """Function that tells how far a loop is: a bar moves, or a line is written.

    Attributes:
        is_shown: Whether anything is shown.
        look_seconds: Seconds between looks at the draws of chains for ESS and R-hat; `None` if
            nobody wants to know these.
    """

    is_shown: bool = True
    look_seconds: float | None = None

    def __init__(self, num_steps: int) -> None:
        self.num_steps, self.began = num_steps, time.monotonic()

    def __call__(self, num_done: int, phase: str = "", text: str = "") -> None:
        """Tells the number of finished steps, the name of the phase, and more in words."""
        seconds = time.monotonic() - self.began
        left = 0.0 if num_done >= self.num_steps else math.nan
        news = ProgressReport(phase, num_done, self.num_steps, seconds=seconds, text=text)
        self.tell(dataclasses.replace(news, seconds_left=left))

    def tell(self, news: ProgressReport) -> None:
        """Tells news of a run."""


@contextmanager
def show_progress(progress: Shown, num_steps: int, unit: str = "step") -> Iterator[Report]:
    """A context that shows how far a loop is, on standard error, or tells it to a callback.

    In a terminal and in a notebook it is a bar, which says "compiling" until the first step is
    finished. Elsewhere, as in a log file, it is a line every ten seconds.

    Args:
        progress: Whether to show it; None is where somebody looks, in a terminal and a notebook.
            Or :class:`Live`, for more, or a function that gets a :class:`ProgressReport`.
        num_steps: Number of steps of the loop.
        unit: Name of a step.

    Yields:
        The function to call with the number of finished steps.

    Raises:
        TypeError: if `progress` is something else.
    """
    is_flag = progress is None or isinstance(progress, bool | np.bool_)
    if not (is_flag or isinstance(progress, Live) or callable(progress)) or progress is Live:
        raise TypeError(
            "progress must be True, False, None, inference.Live() or a function that gets a "
            f"ProgressReport, got {progress!r}"
        )
    live = progress if isinstance(progress, Live) else None
    if callable(progress):
        yield _Callback(num_steps, progress)
    elif not is_shown(progress):
        yield _Silence(num_steps)
    elif not _is_watched():
        yield _Lines(num_steps, unit, live)
    else:
        more = {} if live is None else {"bar_format": _LIVE_FORMAT}
        with _bar_class()(total=num_steps, unit=unit, desc="compiling", **more) as bar:
            yield _Bar(num_steps, bar, live)


def is_shown(progress: Any) -> bool:
    """Whether somebody is to read about the progress on standard error."""
    return not callable(progress) and bool(_is_watched() if progress is None else progress)


def _duration(seconds: float) -> str:
    """Duration in seconds, minutes or hours."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


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


class _Silence(Report):
    """Nothing."""

    is_shown = False

    def __call__(self, num_done: int, phase: str = "", text: str = "") -> None:
        pass


class _Callback(Report):
    """A function that gets each report."""

    look_seconds = 1.0

    def __init__(self, num_steps: int, function: Callable[[ProgressReport], object]) -> None:
        super().__init__(num_steps)
        self.function = function

    def tell(self, news: ProgressReport) -> None:
        self.function(news)


class _Bar(Report):
    """A bar of tqdm; a new phase shows at once."""

    def __init__(self, num_steps: int, bar: Any, live: Live | None) -> None:
        super().__init__(num_steps)
        self.bar = bar
        self.phase = ""
        self.look_seconds = None if live is None else live.seconds

    def tell(self, news: ProgressReport) -> None:
        if self.look_seconds is None:
            self.bar.set_description(news.phase, refresh=False)
            self.bar.set_postfix_str(news.describe(), refresh=False)
        else:
            parts = (news.phase, news.describe_all())
            text = ", ".join(part for part in parts if part)
            self.bar.set_description_str(text, refresh=False)
        self.bar.total = news.num_iterations
        self.bar.update(news.num_done - self.bar.n)
        if news.phase != self.phase or news.num_done >= news.num_iterations:
            self.bar.refresh()
        self.phase = news.phase


class _Lines(Report):
    """A line on standard error every ten seconds, and one at the end.

    After a hundred seconds, a line comes whenever the time has grown by a tenth.
    """

    def __init__(self, num_steps: int, unit: str, live: Live | None) -> None:
        super().__init__(num_steps)
        self.unit = unit
        self.last = 0.0
        self.told: tuple[int, str] | None = None
        self.look_seconds = None if live is None else _LINE_SECONDS / 2

    def tell(self, news: ProgressReport) -> None:
        is_end = news.num_done >= news.num_iterations
        pause = max(_LINE_SECONDS, _LINE_GROWTH * news.seconds)
        told = news.num_done, news.text
        if told == self.told or not (is_end or news.seconds - self.last >= pause):
            return
        self.last = news.seconds
        self.told = told
        share = f"{news.num_done} of {news.num_iterations} {self.unit}s after {news.seconds:.0f} s"
        text = news.describe() if self.look_seconds is None else news.describe_all()
        parts = (news.phase, share, text)
        print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)
