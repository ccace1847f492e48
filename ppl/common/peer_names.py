"""Names of other libraries, with what to write here: for attributes that do not exist."""

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ppl.common.near_names import by_name

Function = TypeVar("Function", bound=Callable[..., Any])

_PREDICT = (
    "ppl.predict(model, draws)(key, *args), or ppl.predict(model, 1000) for draws of the prior"
)
PEER_NAMES = by_name(
    {
        "arrays or jax.vmap: a batch needs no plate": "plate plate_stack",
        "jax.lax.scan and its kin, as they are": "scan while_loop",
        "jax.lax.cond, as it is": "cond switch",
        "ppl.deterministic(value, name=...)": "Deterministic TransformedData",
        "ppl.factor(log_weight, name=...)": "Potential potential",
        "ppl.intervene(model, values)": "do",
        "ppl.condition(model, {name: data})": "observe obs set_data",
        "arguments of the model": "Data MutableData ConstantData",
        _PREDICT: "Predictive sample_posterior_predictive sample_prior_predictive",
        "ppl.log_probs(model)": "log_likelihood compute_log_likelihood",
        "ppl.marginalize(model, names), and ppl.recover for draws of what it sums out": (
            "config_enumerate infer_discrete recover_marginals MarginalMixture"
        ),
        "ppl.graph(model)(*args)": "render_model model_to_graphviz",
        "ppl.unconstrain(model, *args), its log density": "initialize_model potential_energy",
        "ppl.scale, or svi(batch=...)": "subsample Minibatch total_size",
        "the package inference": "MCMC SVI infer mcmc svi NUTS HMC",
        "the package distributions": "distributions dist",
        "ppl.module(key, net, name=...)": "flax_module nnx_module haiku_module eqx_module",
        "ppl.module(key, net, prior, name=...)": (
            "random_flax_module random_nnx_module random_haiku_module random_eqx_module"
        ),
        "a function of a random key: it needs no class and no context": "Model",
        "functions: ppl.condition, ppl.intervene, ppl.block, ppl.scale and ppl.trace": "handlers",
        "ppl.ignore(data) for missing data, or distributions.Masked": "mask",
        "the key of the model: split it as any JAX code does": "prng_key",
        "ppl.nest(submodel, scope=...)": "scope",
        "the model itself: it takes its key, model(key, *args)": "seed",
        "ppl.condition, which scores the values, or ppl.intervene, which does not": "substitute",
    }
)


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
