"""Rule of `jax.checkpoint`."""

import functools
from typing import ClassVar

import jax

from ppl.harvest import _jax
from ppl.harvest._construct import register
from ppl.harvest._interpreter import Opened, Results
from ppl.harvest.rules._call import CallRule, call_again


class CheckpointRule(CallRule):
    """Rematerialization: records are saved, as results are; all else is computed again."""

    is_parallel: ClassVar[bool] = False  # A checkpoint is there to save memory.

    def run(self, opened: Opened) -> Results:
        """Results and records of a checkpoint of the body."""
        eqn, args, plants, live_outs, on = opened
        wrap = functools.partial(jax.checkpoint, **_jax.checkpoint_options(eqn))
        return call_again(wrap, eqn.params["jaxpr"], args, plants, live_outs, on)


register(CheckpointRule("remat2"))
