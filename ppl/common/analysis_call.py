"""Function of the arguments of a model, which says so where it is printed."""

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Found = TypeVar("Found")


@dataclasses.dataclass(frozen=True, repr=False)
class AnalysisCall(Generic[Found]):
    """Function of the arguments of a model without its key.

    Attributes:
        function: The function.
        what: Name of the analysis in `ppl`.
        model: Name of the model.
    """

    function: Callable[..., Found]
    what: str
    model: str

    def __call__(self, *args: Any, **kwargs: Any) -> Found:
        """The result of the function for these arguments."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        """The analysis, the model, and the call that gives the result."""
        return f"<ppl.{self.what} of {self.model}: call it, as ppl.{self.what}(model)(*args)>"
