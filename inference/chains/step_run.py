"""Runs of chains for kernels with `init` and `step`: each call makes a number of transitions.

Subclasses make the batches and start their chains: :mod:`inference.chains.step_sampling` for
kernels with only `init` and `step`, :mod:`inference.chains.ensemble_sampling` for ensembles.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from inference.chains.batch import Batch
from inference.chains.chain_run import ChainRun
from inference.chains.chain_threads import CALL_SECONDS
from inference.common.state_leaves import State
from inference.runtime.compiled_program import compile_once

# Memory for draws between two calls: maximum of numbers in all rows of a batch, if there are many
# batches, and if one batch has all chains.
MAX_NUMBERS = 1 << 20
MAX_NUMBERS_WHOLE = 1 << 22


class StepRun(ChainRun):
    """Run of all chains of this process; the work of a call is a number of transitions.

    A subclass makes the batches, and the program `advance` that moves one, when a run begins and
    when it goes on from a state.
    """

    def _make_batches(self, parts: Sequence[Any], size: int, num_done: Any = 0) -> None:
        """Batches of `size` chains each, which have made `num_done` transitions.

        Args:
            parts: Chains of each batch.
            size: Number of chains of each.
            num_done: Number of transitions of each batch, or of all.
        """
        span = (self.num_warmup, self.num_iterations)
        numbers = np.broadcast_to(num_done, len(parts))
        self.batches = [
            Batch(part, np.full(size, numbers[i], np.int32), *span, self.recorder, i * size)
            for i, part in enumerate(parts)
        ]

    def _make_rows(self, row: Any, size: int, max_numbers: int) -> None:
        """Empty rows for `size` chains, as many as `max_numbers` in them allow."""
        self.num_rows = self._num_rows(size, max_numbers)
        shape = size, self.num_rows + 1  # one row more, for values that are not kept
        self.no_rows = jax.tree.map(lambda x: np.zeros((*shape, *x.shape), x.dtype), row)

    def _compile_programs(self, function: Any, row: Any, joint: int = 0) -> None:
        """Compiles two programs: to move a batch, and to compute values of sites from its rows.

        Args:
            function: Function from chains, rows, offset, number, kernel and layout to chains and
                rows.
            row: Shapes of a row of one chain, position and statistics.
            joint: Number of chains that the function moves together; 0 if it moves one chain.
        """
        chains = self.batches[0].chains
        by_chain = ("chains", "rows")
        self.advance = compile_once(
            function,
            *(chains, self.no_rows, np.int32(0), np.int32(1), self.kernel, self.layout),
            share=self.share,
            donate=by_chain,
            sharded=by_chain,
            joint=joint,
        )
        self._compile_values(row[1])

    def _call(self, batch: Batch, rows: Any, budget: int) -> int:
        """Starts a call of up to `budget` transitions, all of them in warm-up or all after it.

        Draw `i` is in row ``i % num_rows``, whenever draws are read: where many rows are computed
        at once, the last bits of a value might depend on its row.
        """
        num_done = int(batch.iteration[0])
        to_end = (self.num_warmup if num_done < self.num_warmup else self.num_iterations) - num_done
        place = max(0, num_done - self.num_warmup) % self.num_rows
        number = min(budget, to_end, self.num_rows - place)
        batch.first = batch.iteration - np.int32(place)
        numbers = np.int32(place), np.int32(number)
        batch.chains, batch.buffers.filling = self.advance(
            batch.chains, rows, *numbers, self.kernel, self.layout
        )
        return number

    def _wait(self, batch: Batch, spent: int) -> int:
        jax.block_until_ready((batch.chains, batch.buffers.filling))
        batch.iteration = batch.iteration + np.int32(spent)
        return spent

    def _next_budget(self, budget: int, spent: int, seconds: float, is_alone: bool) -> int:
        """Transitions of the next call, by speed; more than now only if no draws were copied."""
        most = 2 * budget + 1 if is_alone else budget
        return int(np.clip(CALL_SECONDS / max(seconds / spent, 1e-9), 1, most))

    def _positions(self, rows: Any) -> Any:
        return rows[0]

    def _further_state(self) -> State:
        return {"num_done": np.array([int(batch.iteration[0]) for batch in self.batches])}
