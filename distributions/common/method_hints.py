"""Methods of other libraries' distributions, with what to write here."""

import typing

METHODS = {
    "to_event": "no axis is declared: ppl.sample adds up the log probabilities of all elements",
    **dict.fromkeys(
        ("expand", "expand_by"), "dist.iid(d, shape), or parameters of the whole shape"
    ),
    "mask": "ppl.ignore(data) for missing data, or dist.Masked",
    **dict.fromkeys(("rsample", "rvs", "random"), "d.sample(key, sample_shape)"),
    **dict.fromkeys(("logpdf", "logpmf", "logp"), "d.log_prob(value)"),
    **dict.fromkeys(("pdf", "pmf", "prob"), "jnp.exp(d.log_prob(value))"),
    "logcdf": "d.log_cdf(value)",
    **dict.fromkeys(("sf", "survival_function"), "d.survival(value)"),
    **dict.fromkeys(("logsf", "log_survival_function"), "d.log_survival(value)"),
    **dict.fromkeys(("ppf", "icdf"), "d.quantile(q)"),
    **dict.fromkeys(("std", "stddev"), "jnp.sqrt(d.variance())"),
    "var": "d.variance()",
    "kl_divergence": "dist.kl_divergence(p, q)",
}


class ExplainsMethods:
    """Base of a class whose error for a missing attribute says what to write instead."""

    if not typing.TYPE_CHECKING:

        def __getattr__(self, name: str) -> str:
            """Only called for an attribute that is not there, or whose own computation fails."""
            if name not in METHODS:
                return object.__getattribute__(self, name)
            text = f"{type(self).__name__!r} object has no attribute {name!r} ({METHODS[name]})"
            raise AttributeError(text, name=name, obj=self)
