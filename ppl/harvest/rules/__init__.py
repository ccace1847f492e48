"""One rule for each higher-order primitive that harvest can open, by the primitive's name."""

from collections.abc import Mapping

from ppl.harvest._interpreter import Rule
from ppl.harvest.rules.cond import Cond
from ppl.harvest.rules.jit import Jit
from ppl.harvest.rules.scan import Scan
from ppl.harvest.rules.while_loop import While

RULES: Mapping[str, Rule] = {
    "jit": Jit(),
    "scan": Scan(),
    "while": While(),
    "cond": Cond(),
}
