"""One rule for each higher-order primitive that harvest can open, by the primitive's name."""

from collections.abc import Mapping

from ppl.harvest._interpreter import Rule
from ppl.harvest.rules.checkpoint import Checkpoint
from ppl.harvest.rules.cond import Cond
from ppl.harvest.rules.custom import CustomJVP, CustomVJP
from ppl.harvest.rules.inline import Inline
from ppl.harvest.rules.jit import Jit
from ppl.harvest.rules.scan import Scan
from ppl.harvest.rules.shard_map import ShardMap
from ppl.harvest.rules.while_loop import While

RULES: Mapping[str, Rule] = {
    "jit": Jit(),
    "scan": Scan(),
    "while": While(),
    "cond": Cond(),
    "remat2": Checkpoint(),
    "custom_jvp_call": CustomJVP(),
    "custom_vjp_call": CustomVJP(),
    "custom_linear_solve": CustomJVP(),
    "call_hi_primitive": CustomJVP(),
    "shard_map": ShardMap(),
    "closed_call": Inline(),
    "eval_jaxpr": Inline(),
}
