"""Check of the keywords of a call: each belongs to the driver or to the model."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ppl.core.model_pytree import check_callable, name_of, parameters_behind_key

# Our arguments, with their names elsewhere.
_ARGUMENTS = {
    "init": "init_strategy initvals init_params inits init_loc_fn",
    "batches": "loader dataloader data_loader dataset",
    "callback": "callbacks callback_fn on_step",
    "num_chains": "chains n_chains",
    "num_draws": "num_samples draws iter_sampling samples",
    "num_particles": "num_particles_per_step obj_n_mc",
    "num_steps": "n_steps num_iterations iter",
    "num_warmup": "tune iter_warmup warmup burnin",
    "objective": "loss",
    "optimizer": "optim obj_optimizer",
    "progress": "progressbar show_progress progress_bar",
    "target_acceptance_rate": "target_accept_prob target_accept adapt_delta",
}
# What to do for arguments elsewhere, and an argument of the drivers for which it holds.
_REMEDIES = {
    "the key comes first, as jax.random.key(0)": ("random_seed seed rng_key", ""),
    "thin the draws, as jax.tree.map(lambda x: x[:, ::10], result.draws)": (
        "thin thinning",
        "num_chains",
    ),
    "chains use all cores by themselves": ("chain_method cores parallel_chains", "num_chains"),
    "give it to kernel=NUTS(...)": (
        "max_depth max_tree_depth max_treedepth step_size inverse_mass_matrix",
        "kernel",
    ),
    "give it to optimizer=, as optax.adam(1e-3)": ("learning_rate lr", "optimizer"),
    "call result.to_arviz()": ("return_inferencedata idata_kwargs", ""),
    "svi has one; here, progress= takes a function, too": ("callback", "num_warmup"),
    'write mass_matrix="dense" or "diagonal", or a list of groups of sites': (
        "dense_mass",
        "mass_matrix",
    ),
    "mcmc has it, for one data set": (
        "cache_dir checkpoint init mass_matrix mesh transport until",
        "kernel",
    ),
}


def _hint(name: str, own: Sequence[str], known: Sequence[str]) -> str:
    """Advice about a keyword that a driver does not have, "" if there is none."""
    for remedy, (others, needed) in _REMEDIES.items():
        if name in others.split() and needed in ("", *own):
            return remedy
    meant = next((ours for ours, others in _ARGUMENTS.items() if name in others.split()), "")
    if meant not in own:
        names = {other: ours for ours in own for other in _ARGUMENTS.get(ours, "").split()}
        names |= {ours: ours for ours in known}
        meant = names.get(next(iter(get_close_matches(name, names, 1)), ""), "")
    return f"did you mean {meant!r}?" if meant else ""


def check_keywords(
    driver: Callable[..., Any],
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    has_keywords: bool = True,
) -> None:
    """Refuses keywords that neither a driver nor the model has, and suggests known ones.

    Raises:
        TypeError: if there is such a keyword, if the driver has a keyword that `model` needs as an
            argument, or if `model` is not a function.
    """
    check_callable(model)
    try:
        taken = parameters_behind_key(model)
    except ValueError:  # a callable without a signature
        return
    if any(p.kind is p.VAR_KEYWORD for p in taken):
        return
    names = [p.name for p in taken if p.kind is not p.POSITIONAL_ONLY]
    parameters = inspect.signature(driver).parameters.values()
    own = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and has_keywords]
    for p in taken[len(args) :]:
        is_needed = p.default is p.empty and p.kind not in (
            p.POSITIONAL_ONLY,
            p.VAR_POSITIONAL,
        )
        if p.name in own and is_needed and p.name not in _bound(model):
            raise TypeError(
                f"{name_of(model)} has an argument {p.name!r}, and so has {driver.__name__}, which "
                f"takes {p.name}= for its own. Give it to the model by position, or as "
                f"functools.partial(model, {p.name}=...)."
            )
    for name in (name for name in kwargs if name not in names):
        hint = _hint(name, own, [*own, *names])
        raise TypeError(
            f"{driver.__name__} has no argument {name!r}, nor has {name_of(model)}"
            + (f": {hint}" if hint else f". {driver.__name__} has {', '.join(own)}.")
        )


def check_no_arguments(
    where: str, first: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], key: Any
) -> None:
    """Checks that there are no arguments of a model that was not given.

    Raises:
        TypeError: if there are.
    """
    if args or kwargs or key is not None:
        raise TypeError(
            f"{where}: a key and arguments are for a model: {where}({first}posterior, *args, "
            "key=key)"
        )


def _bound(model: Any) -> set[str]:
    """Keywords of a model that a partial function around it gives."""
    found = set()
    while isinstance(model, functools.partial):
        found |= model.keywords.keys()
        model = model.args[0] if model.args and callable(model.args[0]) else model.func
    return found
