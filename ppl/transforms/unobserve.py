"""unobserve: a model whose data are drawn anew, for predictive distributions."""

from typing import Any

from jax.tree_util import Partial

from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, trace_model
from ppl.core.site_rewriting import Redraw


def unobserve(model: Model) -> Model:
    """A model without its data: `condition` undone, with observed sites latent.

    A site observed in part, by `impute` or `ignore`, is drawn whole. Data of a marginalized model
    are drawn given one draw of the sites that were taken out.

    Args:
        model: A function of a random key.

    Returns:
        A model of the same arguments, which gives the draws of `model` before `condition`.
    """
    return Partial(_run_unobserved, as_pytree(model))


def _run_unobserved(model: Model, key: Any, *args: Any, **kwargs: Any) -> Any:
    return ModelRun(model, trace_model(model, key, args, kwargs), Redraw()).output({})
