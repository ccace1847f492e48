"""The rule for `jax.checkpoint`."""

import functools
from collections.abc import Sequence
from typing import Any

import jax

from ppl.harvest import _jax
from ppl.harvest._interpreter import Interpreter, Reaped
from ppl.harvest._liveness import Mask
from ppl.harvest._plants import Plants
from ppl.harvest.rules._call import Call, call_again


class Checkpoint(Call):
    """What is reaped is saved, as every result; the rest is computed again as before."""

    def run(
        self,
        eqn: Any,
        args: list[Any],
        plants: Plants,
        live_outs: Mask,
        on: Interpreter,
    ) -> tuple[Sequence[Any], list[Reaped]]:
        """The same construct around the bodies, with their plants and records."""
        wrap = functools.partial(jax.checkpoint, **_jax.checkpoint_options(eqn))
        return call_again(wrap, eqn.params["jaxpr"], args, plants, live_outs, on)
