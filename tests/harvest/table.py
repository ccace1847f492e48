"""The whole table of programs."""

from .calls import CALLS
from .cases import CONTROL_FLOW

CASES = [*CONTROL_FLOW, *CALLS]
