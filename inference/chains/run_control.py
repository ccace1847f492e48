"""Control of a run: where its chains pause, when it ends early, and who is told of its draws."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from inference.chains.chain_threads import warn_of_interrupt
from inference.runtime.devices import Share
from inference.runtime.interrupts import without_interrupts

_ENDED_ALONE = (
    "The data are split over devices of several processes, all of which move each chain: the run "
    "has no draws to return, and the other processes wait for this one until it has ended."
)


class StopRun(Exception):  # noqa: N818, like StopIteration
    """Exception that a monitor raises to end a run like an interrupt, with the draws so far."""


class Run(Protocol):
    """Run of chains, as a monitor and :func:`finish_run` see it."""

    share: Share
    num_warmup: int

    @property
    def num_done(self) -> int:
        """Number of complete iterations, the average over chains."""
        ...

    @property
    def num_drawn(self) -> int:
        """Number of draws that every chain has made."""
        ...

    @property
    def num_divergent(self) -> int:
        """Number of divergences that have been seen after warm-up."""
        ...

    @property
    def step_size(self) -> float:
        """Median step size; NaN before it is known."""
        ...

    def go_on(self, num_iterations: int, monitor: "Monitor") -> None:
        """Moves all chains until each has made `num_iterations` transitions."""
        ...

    def record(self) -> None:
        """Records the state of the run, from which it can go on; Ctrl-C does not stop it."""
        ...

    def samples(self, num_drawn: int) -> Any:
        """The first `num_drawn` draws of each chain."""
        ...


class Monitor:
    """Monitor of a run; this one watches nothing, and lets a run go on to its end.

    Attributes:
        is_watched: Whether divergences are to be counted while chains run.
        look_seconds: Seconds between two calls of :meth:`add` for a chain; `None` for no calls.
    """

    is_watched: bool = False
    look_seconds: float | None = None

    def looks(self, num_draws: int) -> Iterator[int]:
        """Numbers of draws at which all chains pause; the last number is `num_draws`."""
        yield num_draws

    def tell(self, run: Run) -> None:
        """Is called now and then with the run, from the thread that called `mcmc`.

        Raises:
            StopRun: to end the run.
        """

    def add(self, chain: int, positions: np.ndarray) -> None:
        """Takes the next unconstrained positions of a chain, from the thread that moves it."""

    def is_enough(self, num_drawn: int, samples: Callable[[], Any], share: Share) -> bool:
        """Whether the run ends after `num_drawn` draws of each chain; asked only at looks."""
        return False

    def interrupted(self, run: Run, reason: BaseException) -> None:
        """Is called when a run was ended early, with the reason."""


def finish_run(run: Run, monitor: Monitor, num_draws: int) -> Any:
    """Moves the chains of a run to the end, and returns the draws of all processes.

    A run that goes on from a state skips the looks at fewer draws than it already has.

    Raises:
        KeyboardInterrupt: if an interrupt comes before there are draws.
        StopRun: if the monitor stops the run before there are draws; its cause, if it has one, is
            raised instead.

    If devices of several processes move each chain, both are raised also where there are draws:
    the other processes cannot go on, and have not as many.
    """
    share = run.share
    num_drawn = 0
    begun = share.min_over_processes(min(run.num_drawn, num_draws))
    try:
        for num_drawn in (number for number in monitor.looks(num_draws) if number >= begun):
            run.go_on(run.num_warmup + num_drawn, monitor)

            def samples(number=num_drawn):
                return share.gather(run.samples(number))

            if monitor.is_enough(num_drawn, samples, share):
                break
    except (KeyboardInterrupt, StopRun) as reason:
        if share.is_joint:
            error = reason.__cause__ or reason
            error.add_note(_ENDED_ALONE)
            raise error from None
        run.record()
        num_drawn = run.num_drawn
        if not num_drawn:
            raise (reason.__cause__ or reason) from None
        monitor.interrupted(run, reason)
        if isinstance(reason, KeyboardInterrupt) or reason.__cause__:
            warn_of_interrupt(num_drawn, num_draws, reason.__cause__)
    else:
        run.record()
    num_drawn = share.min_over_processes(num_drawn)
    with without_interrupts():
        return share.gather(run.samples(num_drawn))
