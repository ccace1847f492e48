"""Methods of other libraries' distributions, with what to write here."""

import typing

from distributions.common.near_names import by_name

METHODS = by_name(
    {
        "no axis is declared: ppl.sample adds up the log probabilities of all elements": "to_event",
        "dist.iid(d, shape), or parameters of the whole shape": "expand expand_by",
        "ppl.ignore(data) for missing data, or dist.Masked": "mask",
        "d.sample(key, sample_shape)": "rsample rvs random",
        "d.log_prob(value)": "logpdf logpmf logp",
        "jnp.exp(d.log_prob(value))": "pdf pmf prob",
        "d.log_cdf(value)": "logcdf",
        "d.survival(value)": "sf survival_function",
        "d.log_survival(value)": "logsf log_survival_function",
        "d.quantile(q)": "ppf icdf",
        "jnp.sqrt(d.variance())": "std stddev",
        "d.variance()": "var",
        "dist.kl_divergence(p, q)": "kl_divergence",
    }
)


class ExplainsMethods:
    """Base of a class whose error for a missing attribute says what to write instead."""

    if not typing.TYPE_CHECKING:

        def __getattr__(self, name: str) -> str:
            """Only called for an attribute that is not there, or whose own computation fails."""
            if name not in METHODS:
                return object.__getattribute__(self, name)
            text = f"{type(self).__name__!r} object has no attribute {name!r} ({METHODS[name]})"
            raise AttributeError(text, name=name, obj=self)
