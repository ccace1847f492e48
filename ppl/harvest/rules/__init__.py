"""Rules of the constructs: one file for each, which registers its record in `CONSTRUCTS`.

Reading order: `call` (base of all calls), `inline`, `jit`, `checkpoint`, `custom`, `shard_map`;
`cond`, `vmapped_cond`; `loop_carry`, `while_loop`, `scan`. A scan may run in parallel:
`planted_liveness` and `parallel_scan`.
"""

from ppl.harvest.construct import CONSTRUCTS as CONSTRUCTS
from ppl.harvest.construct import construct_of as construct_of
from ppl.harvest.construct import wiring_of as wiring_of
from ppl.harvest.rules import checkpoint as checkpoint
from ppl.harvest.rules import cond as cond
from ppl.harvest.rules import custom as custom
from ppl.harvest.rules import inline as inline
from ppl.harvest.rules import jit as jit
from ppl.harvest.rules import scan as scan
from ppl.harvest.rules import shard_map as shard_map
from ppl.harvest.rules import vmapped_cond as vmapped_cond
from ppl.harvest.rules import while_loop as while_loop
