"""Models of other libraries as pytrees of their data."""

import jax
from jax.tree_util import Partial


class DoorModel(Partial):
    """A function with its data; it prints the function alone."""

    def __repr__(self) -> str:
        return repr(self.func)


jax.tree_util.register_pytree_node(
    DoorModel,
    lambda model: ((model.args, model.keywords), model.func),
    lambda function, children: DoorModel(function, *children[0], **children[1]),
)
