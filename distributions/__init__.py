"""Probability distributions, their supports, and bijectors from unconstrained space.

Names and parameters are those of TensorFlow Probability. Probabilities and log odds are keywords,
as are all parameters that other libraries take in another order. Every distribution is a pytree of
its parameters with `log_prob`, `sample`, `support` and `bijector`.

Dtypes follow JAX's promotion rules:

- Python scalars are weakly typed: `Normal(0.0, 1.0)` draws in the default float, but scores a
  bfloat16 value in bfloat16.
- Arrays of different dtypes are promoted, and integers become floats.
- Draws of discrete families have JAX's default integer dtype.

Parameters are checked on the host when a distribution is made, unless JAX traces them. Outside of
the support a log density is `-inf`, with a gradient of zero.

    >>> import distributions as dist
    >>> round(float(dist.Normal(0.0, 1.0).log_prob(0.0)), 4)
    -0.9189
"""

import importlib
import importlib.metadata
import pathlib
import re
import typing

# The stub lists every public name beside its module, for type checkers and for the code below. A
# module is imported at the first use of one of its names.
_STUB = pathlib.Path(__file__).with_suffix(".pyi").read_text()
_LINE = r"from (\S+) import \(?\s*(\w+) as"  # a long one is wrapped in parentheses
_MODULES = {name: module for module, name in re.findall(_LINE, _STUB)}

__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> typing.Any:
    if name == "__version__":  # looked up when asked for: importing stays cheap
        return importlib.metadata.version("harvest-ppl")
    if name not in _MODULES:
        from distributions.common.peer_names import explain

        hint = explain(name, _MODULES)
        raise AttributeError(f"module 'distributions' has no attribute {name!r}{hint}")
    module = _MODULES[name]
    is_package = module == "distributions"
    found = importlib.import_module(f"{module}.{name}" if is_package else module)
    globals()[name] = found if is_package else getattr(found, name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
