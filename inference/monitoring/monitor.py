"""Monitor of a run: it tells news of the chains, and decides when the run ends."""

import dataclasses
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from inference.chains.run_control import Monitor, Run, StopRun
from inference.common.target import NamedSite
from inference.monitoring.batch_means import BatchMeans, join
from inference.monitoring.until import Until, looks
from inference.results.diagnostics import MIN_DRAWS
from inference.results.summary import summarize
from inference.runtime.devices import Share
from inference.runtime.progress import ProgressReport, Report

# Chains and coordinates whose draws are watched, and batches of each chain.
_MAX_CHAINS = 64
_MAX_COORDINATES = 256
_MAX_BATCHES = 128
_MIN_WATCHED = 20  # draws of each chain before ESS and R-hat are told
_MAX_SHARE = 0.005  # of the time, for ESS and R-hat while chains run


class RunMonitor(Monitor):
    """Monitor that reports progress and applies a stopping rule.

    Args:
        report: Bar, lines or callback.
        until: Stopping rule, or `None`.
        num_warmup, num_draws, num_chains: Settings of the run.
        num_before: Iterations of warm-up before the run that it monitors.
        sites: The sites in the order of the model, with their labels.
        num_superchains: Number of groups of chains that share a start, or `None`.
        began: Time of the call of `mcmc`, by the monotonic clock.

    Attributes:
        ended: Words on why the run ended, "" if it went to its end as planned.
        is_unmet: Whether the run ended before the rule held.
        is_interrupted: Whether Ctrl-C ended the run.
    """

    def __init__(
        self,
        report: Report,
        until: Until | None,
        *,
        num_warmup: int,
        num_draws: int,
        num_chains: int,
        num_superchains: int | None,
        began: float,
        num_before: int = 0,
        sites: Sequence[NamedSite] = (),
    ) -> None:
        self.report = report
        self.until = until
        self.began = began
        self.is_watched = report.is_shown
        self.look_seconds = report.look_seconds
        self.num_warmup = num_warmup
        self.num_before = num_before
        self.num_draws = num_draws
        self.num_chains = num_chains
        self.num_superchains = num_superchains
        self.sites = sites
        self.ended = ""
        self.is_unmet = False
        self.is_interrupted = False
        self._unmet: tuple[str, ...] = ()
        self._expected = 0.0  # draws of a chain, by the last look
        self._news = ProgressReport(num_chains=num_chains)
        self._chains: dict[int, BatchMeans] = {}
        self._lock = threading.Lock()
        self._looked = began
        self._pause = 0.0
        self._phase: tuple[bool, float, int] | None = None
        self._has_failed = False

    @property
    def seconds(self) -> float:
        """Seconds since the call of `mcmc`."""
        return time.monotonic() - self.began

    def looks(self, num_draws: int) -> Iterator[int]:
        """Numbers of draws at which the rule looks at the run; without a rule only `num_draws`."""
        return iter([num_draws]) if self.until is None else looks(num_draws)

    def add(self, chain: int, positions: np.ndarray) -> None:
        """Takes in positions of a chain; it keeps only the first chains and some coordinates."""
        if chain >= _MAX_CHAINS or not len(positions):
            return
        step = -(-positions.shape[1] // _MAX_COORDINATES)
        draws = np.asarray(positions[None, :, ::step], np.float64)
        with self._lock:
            self._chains.setdefault(chain, BatchMeans(_MAX_BATCHES)).add(draws)

    def tell_before(self, run: Run, num_before: int) -> None:
        """Reports how far a run is that is a part of warm-up, after `num_before` iterations.

        Raises:
            StopRun: if a callback failed.
        """
        if self.report.is_shown:
            self._report(num_before + run.num_done, 0, 0, run.step_size)

    def tell(self, run: Run) -> None:
        """Reports how far the run is, and ends the run if its time is over.

        Raises:
            StopRun: if time is over, or a callback failed.
        """
        if self.report.is_shown:
            done = self.num_before + run.num_done
            self._report(done, run.num_drawn, run.num_divergent, run.step_size)
        limit = None if self.until is None else self.until.seconds
        if limit is None or run.share.is_partial or run.share.is_joint or self.seconds < limit:
            return  # several processes end together, only at looks
        if run.num_drawn >= min(MIN_DRAWS, self.num_draws):
            raise StopRun

    def is_enough(self, num_drawn: int, samples: Callable[[], Any], share: Share) -> bool:
        """Whether all criteria hold, or time is over."""
        if self.until is None:
            return False
        drawn = samples() if self.until.has_precision else None
        if drawn is not None:
            groups = self.num_superchains
            summary = summarize(drawn.draws, self.sites, num_superchains=groups)
            self._unmet = self.until.unmet(summary)
            self._expected = num_drawn * self.until.growth(summary)
            if not self._unmet:
                self._end(num_drawn, f"all criteria of until hold after {num_drawn} draws of each")
                return True
        limit = self.until.seconds
        is_early = int(limit is None or self.seconds < limit)
        if limit is not None and not share.agree(share.min_over_processes(is_early)):
            self._end_in_time(num_drawn)
            return True
        if num_drawn == self.num_draws and self.until.has_precision:
            self._end(num_drawn, f"num_draws, {num_drawn}, were drawn{self._missing()}", True)
        elif num_drawn == self.num_draws:
            self._end(num_drawn, f"num_draws, {num_drawn}, were drawn before {limit:g} seconds")
        return False

    def interrupted(self, run: Run, reason: BaseException) -> None:
        """Notes why the run was ended early."""
        if isinstance(reason, StopRun) and reason.__cause__ is None:
            self._end_in_time(run.num_drawn)
        else:
            self._has_failed = True  # a callback is not called again
            self.is_interrupted = isinstance(reason, KeyboardInterrupt)
            what = "an interrupt" if self.is_interrupted else "progress"
            self._end(run.num_drawn, f"{what} ended the run{self._missing()}", True)

    def _end_in_time(self, num_drawn: int) -> None:
        limit = self.until.seconds if self.until else None
        is_unmet = self.until is not None and self.until.has_precision
        self._end(num_drawn, f"the {limit:g} seconds of until are over{self._missing()}", is_unmet)

    def _missing(self) -> str:
        if self.until is None or not self.until.has_precision:
            return ""
        if not self._unmet:
            return "; its criteria were not looked at"
        return f"; at the last look, {'; '.join(self._unmet)}"

    def _end(self, num_drawn: int, reason: str, is_unmet: bool = False) -> None:
        self.ended = reason
        self.is_unmet = is_unmet
        self.num_draws = num_drawn

    def finish(self) -> None:
        """Reports that the run has ended, after as many iterations as it has made."""
        if not self.report.is_shown or self._has_failed or not self.ended:
            return
        number = self.num_warmup + self.num_draws
        changes = {"num_done": number, "num_iterations": number, "seconds_left": 0.0}
        self._news = dataclasses.replace(self._news, seconds=self.seconds, **changes)
        self._renew()
        try:
            self.report.tell(self._news)
        except Exception as error:
            warnings.warn(f"progress failed: {error!r}", RuntimeWarning, stacklevel=3)

    def _report(self, num_done: int, num_drawn: int, num_divergent: int, step_size: float) -> None:
        goal = self.num_warmup + self._goal(num_drawn)
        self._news = dataclasses.replace(
            self._news,
            phase="warm-up" if num_done < self.num_warmup else "draws",
            num_done=num_done,
            num_iterations=goal,
            num_divergent=num_divergent,
            step_size=step_size,
            seconds=self.seconds,
            seconds_left=self._seconds_left(num_done, goal),
        )
        is_last = num_done >= self.num_warmup + self.num_draws
        if is_last or time.monotonic() - self._looked >= self._pause:
            self._renew()
        try:
            self.report.tell(self._news)
        except Exception as error:
            self._has_failed = True
            raise StopRun("progress failed") from error

    def _goal(self, num_drawn: int) -> int:
        """Number of draws after which the run is expected to end, at a look of the rule."""
        if self.until is None:
            return self.num_draws
        least = max(self._expected if math.isfinite(self._expected) else 0, num_drawn + 1)
        return next((n for n in looks(self.num_draws) if n >= least), self.num_draws)

    def _seconds_left(self, num_done: int, goal: int) -> float:
        """Guess from the pace of the phase; NaN while the end is unknown."""
        if num_done >= goal:
            return 0.0
        phase = num_done >= self.num_warmup
        now = self.seconds
        if self._phase is None or phase != self._phase[0]:
            self._phase = phase, now, num_done
        _, since, before = self._phase
        is_known = self.until is None or self._expected > 0 or not self.until.has_precision
        guess = math.nan
        if is_known and num_done > before:
            guess = (goal - num_done) * (now - since) / (num_done - before)
        limit = None if self.until is None else self.until.seconds
        if limit is not None:
            guess = max(0.0, min(limit - now, guess) if guess == guess else limit - now)
        return guess

    def _renew(self) -> None:
        """Computes ESS and R-hat anew; the pause before the next time follows from its length."""
        if self.look_seconds is None:
            return
        began = time.monotonic()
        with self._lock:
            known = [x for x in self._chains.values() if x.num_draws >= _MIN_WATCHED]
            batches = join(known) if len(known) == len(self._chains) and known else None
        if batches is not None and batches.num_batches >= MIN_DRAWS:
            ess = batches.ess_mean()
            rhat = batches.rhat()
            ess = ess[np.isfinite(ess)] * (self.num_chains / len(known))
            rhat = rhat[np.isfinite(rhat)]
            self._news = dataclasses.replace(
                self._news,
                ess=float(ess.min()) if ess.size else math.nan,
                rhat=float(rhat.max()) if rhat.size else math.nan,
            )
        self._looked = time.monotonic()
        self._pause = max(self.look_seconds, (self._looked - began) / _MAX_SHARE)
