"""The table of constructs and modes: what each program returns, sows, and returns when planted.

All expectations are worked out by hand. The numbers are small integers and halves, so every
comparison is exact.
"""

from .calls import CALLS
from .cases import COND, JIT, NEST, STRAIGHT
from .invariant_cases import INVARIANT
from .loop_cases import LOOPS, SCAN
from .vmap_cases import VMAP

CASES = [*STRAIGHT, *JIT, *COND, *SCAN, *LOOPS, *VMAP, *NEST, *CALLS, *INVARIANT]
