"""Function of the arguments of a model, which says so where it is printed or taken for a result."""

import dataclasses
import typing
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

    if not typing.TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Only called for an attribute that does not exist, as one of the result."""
            if name.startswith("_"):
                return object.__getattribute__(self, name)
            call = f"ppl.{self.what}(model)"
            raise AttributeError(
                f"{self.what}: {call} has no attribute {name!r}, as it is a function of the "
                f"arguments of the model: call it first, as {call}(*args).{name}, or "
                f"{call}().{name} if the model takes only a key",
                name=name,
                obj=self,
            )

    def __repr__(self) -> str:
        """The analysis, the model, and the call that gives the result."""
        return f"<ppl.{self.what} of {self.model}: call it, as ppl.{self.what}(model)(*args)>"
