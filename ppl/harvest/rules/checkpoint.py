"""Rule of `jax.checkpoint`."""

import functools
from typing import ClassVar

import jax

from ppl.harvest import jax_core
from ppl.harvest.construct import register
from ppl.harvest.interpreter import Opened, Results
from ppl.harvest.rules.call import CallRule, call_again


class CheckpointRule(CallRule):
    """Rematerialization: records are saved, as results are; all else is computed again."""

    is_parallel: ClassVar[bool] = False  # A checkpoint is there to save memory.

    def run(self, opened: Opened) -> Results:
        """Results and records of a checkpoint of the body."""
        eqn, args, plants, live_outs, on = opened
        wrap = functools.partial(jax.checkpoint, **jax_core.checkpoint_options(eqn))
        return call_again(wrap, eqn.params["jaxpr"], args, plants, live_outs, on)


register(CheckpointRule("remat2"))
