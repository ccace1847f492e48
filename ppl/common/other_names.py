"""Names of other libraries, with what to write here: for attributes that do not exist."""

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ppl.common.near_names import hint_near

Function = TypeVar("Function", bound=Callable[..., Any])

OTHER_NAMES = {
    **dict.fromkeys(("plate", "plate_stack"), "arrays or jax.vmap: a batch needs no plate"),
    **dict.fromkeys(("scan", "while_loop"), "jax.lax.scan and its kin, as they are"),
    **dict.fromkeys(("cond", "switch"), "jax.lax.cond, as it is"),
    **dict.fromkeys(("Deterministic", "TransformedData"), "ppl.deterministic(value, name=...)"),
    **dict.fromkeys(("Potential", "potential"), "ppl.factor(log_weight, name=...)"),
    **dict.fromkeys(("do",), "ppl.intervene(model, values)"),
    **dict.fromkeys(("observe", "obs", "set_data"), "ppl.condition(model, {name: data})"),
    **dict.fromkeys(("Data", "MutableData", "ConstantData"), "arguments of the model"),
    **dict.fromkeys(
        ("Predictive", "sample_posterior_predictive", "sample_prior_predictive"),
        "ppl.predict(model, draws)(key, *args), or ppl.predict(model, 1000) for draws of the prior",
    ),
    **dict.fromkeys(("log_likelihood", "compute_log_likelihood"), "ppl.log_probs(model)"),
    **dict.fromkeys(
        ("config_enumerate", "infer_discrete", "recover_marginals", "MarginalMixture"),
        "ppl.marginalize(model, names), and ppl.recover for draws of what it sums out",
    ),
    **dict.fromkeys(("render_model", "model_to_graphviz"), "ppl.graph(model)(*args)"),
    **dict.fromkeys(
        ("initialize_model", "potential_energy"), "ppl.unconstrain(model, *args), its log density"
    ),
    **dict.fromkeys(("subsample", "Minibatch", "total_size"), "ppl.scale, or svi(batch=...)"),
    **dict.fromkeys(
        ("MCMC", "SVI", "infer", "mcmc", "svi", "NUTS", "HMC"), "the package inference"
    ),
    **dict.fromkeys(("distributions", "dist"), "the package distributions"),
    **dict.fromkeys(
        ("flax_module", "nnx_module", "haiku_module", "eqx_module"),
        "ppl.module(key, net, name=...)",
    ),
    **dict.fromkeys(
        ("random_flax_module", "random_nnx_module", "random_haiku_module", "random_eqx_module"),
        "ppl.module(key, net, prior, name=...)",
    ),
    "Model": "a function of a random key: it needs no class and no context",
    "handlers": "functions: ppl.condition, ppl.intervene, ppl.block, ppl.scale and ppl.trace",
    "mask": "ppl.ignore(data) for missing data, or distributions.Masked",
    "prng_key": "the key of the model: split it as any JAX code does",
    "scope": "ppl.nest(submodel, scope=...)",
    "seed": "the model itself: it takes its key, model(key, *args)",
    "substitute": "ppl.condition, which scores the values, or ppl.intervene, which does not",
}


def explain_missing(name: str, public: Iterable[str]) -> str:
    """The words of the error of an attribute that `ppl` does not have.

    Example:
        >>> explain_missing("do", ["sample"])
        "module 'ppl' has no attribute 'do'; instead: ppl.intervene(model, values)"
    """
    text = f"module 'ppl' has no attribute {name!r}"
    if name in OTHER_NAMES:
        return f"{text}; instead: {OTHER_NAMES[name]}"
    return text + hint_near(name, public)


def explain_name_by_position(call: str) -> Callable[[tuple[Any, ...], Mapping[str, Any]], str]:
    """Advice for calls as ``deterministic("r", x)``, where here the name is a keyword."""

    def explain(args: tuple[Any, ...], _: Mapping[str, Any]) -> str:
        names = [x for x in args if isinstance(x, str)]
        name = json.dumps(names[0]) if names else "..."
        return f"the name is a keyword: ppl.{call}, name={name})."

    return explain


def explaining_calls(
    explain: Callable[[tuple[Any, ...], Mapping[str, Any]], str],
) -> Callable[[Function], Function]:
    """Decorator: a call that does not fit the signature is a TypeError in given words.

    Args:
        explain: A function from positional and keyword arguments to the words, or to "" if Python's
            own say it as well.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                # Only after an error: a correct call costs no time.
                if not _fits(function, args, kwargs) and (words := explain(args, kwargs)):
                    raise TypeError(f"{function.__name__}: {words}") from error
                raise

        return wrapped  # pyright: ignore[reportReturnType]

    return decorate


def _fits(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True
