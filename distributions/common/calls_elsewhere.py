"""Calls for families of other libraries that are here a family of parts, or of other parameters."""

_NEGATIVE_BINOMIAL = "NegativeBinomial(mean=..., concentration=...)"
_CALLS = {
    "HurdleGamma": "Hurdle(Gamma(concentration, rate), probs=...)",
    "HurdleLogNormal": "Hurdle(LogNormal(loc, scale), probs=...)",
    "HurdleNegativeBinomial": f"Hurdle({_NEGATIVE_BINOMIAL}, probs=...)",
    "HurdleNegativeBinomial2": f"Hurdle({_NEGATIVE_BINOMIAL}, probs=...)",
    "HurdlePoisson": "Hurdle(Poisson(rate), probs=...)",
    "NegativeBinomial2": _NEGATIVE_BINOMIAL,
    "ZeroInflatedBinomial": "ZeroInflated(Binomial(total_count, probs=...), probs=...)",
    "ZeroInflatedNegativeBinomial": f"ZeroInflated({_NEGATIVE_BINOMIAL}, probs=...)",
    "ZeroInflatedNegativeBinomial2": f"ZeroInflated({_NEGATIVE_BINOMIAL}, probs=...)",
    "ZeroInflatedPoisson": "ZeroInflated(Poisson(rate), probs=...)",
    "neg_binomial_2": _NEGATIVE_BINOMIAL,
}


def call_instead(name: str) -> str:
    """The call for a family of another library, after a colon; "" if its name says all.

    Example:
        >>> call_instead("NegativeBinomial2")
        ': NegativeBinomial(mean=..., concentration=...)'
    """
    return f": {_CALLS[name]}" if name in _CALLS else ""
