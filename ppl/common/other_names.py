"""Names of other libraries, with what to write here: for attributes that do not exist."""

import difflib
from collections.abc import Iterable, Mapping

OTHER_NAMES = {
    **dict.fromkeys(("plate", "plate_stack"), "arrays or jax.vmap: a batch needs no plate"),
    **dict.fromkeys(("scan", "while_loop"), "jax.lax.scan and its kin, as they are"),
    **dict.fromkeys(("cond", "switch"), "jax.lax.cond, as it is"),
    **dict.fromkeys(("Deterministic", "TransformedData"), "ppl.deterministic(value, name=...)"),
    **dict.fromkeys(("Potential", "potential"), "ppl.factor(log_weight, name=...)"),
    **dict.fromkeys(("do", "handlers_do"), "ppl.intervene(model, values)"),
    **dict.fromkeys(("observe", "obs", "set_data"), "ppl.condition(model, {name: data})"),
    **dict.fromkeys(("Data", "MutableData", "ConstantData"), "arguments of the model"),
    **dict.fromkeys(
        ("Predictive", "sample_posterior_predictive", "sample_prior_predictive"),
        "ppl.predict(model, draws)(key, *args), or ppl.predict(model, 1000) for draws of the prior",
    ),
    **dict.fromkeys(("log_likelihood", "compute_log_likelihood"), "ppl.log_probs(model)"),
    **dict.fromkeys(("render_model", "model_to_graphviz"), "ppl.graph(model)(*args)"),
    **dict.fromkeys(
        ("initialize_model", "potential_energy"), "ppl.unconstrain(model, *args), its log density"
    ),
    **dict.fromkeys(("subsample", "Minibatch", "total_size"), "ppl.scale, or svi(batch=...)"),
    **dict.fromkeys(
        ("MCMC", "SVI", "infer", "mcmc", "svi", "NUTS", "HMC"), "the package inference"
    ),
    **dict.fromkeys(("distributions", "dist"), "the package distributions"),
    "Model": "a function of a random key: it needs no class and no context",
    "handlers": "functions: ppl.condition, ppl.intervene, ppl.block, ppl.scale and ppl.trace",
    "mask": "ppl.ignore(data) for missing data, or distributions.Masked",
    "module": "a site for each leaf, or a distribution of the whole tree; examples/bayesian_network.py",
    "prng_key": "the key of the model: split it as any JAX code does",
    "scope": "ppl.nest(submodel, scope=...)",
    "seed": "the model itself: it takes its key, model(key, *args)",
    "substitute": "ppl.condition, which scores the values, or ppl.intervene, which does not",
}


def explain_missing(
    module: str, name: str, public: Iterable[str], elsewhere: Mapping[str, str] = OTHER_NAMES
) -> str:
    """What the error of a missing attribute says.

    Example:
        >>> explain_missing("ppl", "do", ["sample"])
        "module 'ppl' has no attribute 'do'; it is ppl.intervene(model, values)"
    """
    text = f"module {module!r} has no attribute {name!r}"
    if name in elsewhere:
        return f"{text}; it is {elsewhere[name]}"
    close = difflib.get_close_matches(name, public, 1)
    return f"{text}; did you mean {close[0]!r}?" if close else text
