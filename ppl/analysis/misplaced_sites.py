"""Errors for misplaced sites, in a construct that leaves the set of variables open or is opaque."""

from collections.abc import Collection
from typing import Any

from jax.extend import core as jex

from ppl.harvest import jax_core
from ppl.harvest.sowing import sites_in
from ppl.harvest.survey import MisplacedError, describe
from ppl.primitives.site_kinds import RANDOM

_WHY = {
    "cond": "is in some branches of a cond and not in others",
    "while": "is in a while loop, whose number of iterations is not known",
    "vmap of cond": (
        "is in a branch of a cond whose predicate a vmap maps, and which is not evaluated element "
        "by element: the branches hold a collective over elements or an effect, or the vmap has an "
        "spmd_axis_name"
    ),
}
_VARIABLES = {
    "cond": (
        "how many variables there are would depend on a value, and densities over different "
        "variables cannot be compared. Sample it in every branch, or before the cond, and use it "
        "where it is wanted: what nothing uses integrates to one."
    ),
    "while": (
        "how many variables there are would depend on values. Use lax.scan, or lax.fori_loop with "
        "static bounds, over the most steps that there can be."
    ),
    "vmap of cond": (
        "its distribution is not one. Have the collective or the effect in front of the cond, or "
        "choose its parameters by jnp.where and sample it once."
    ),
}
_RECORDS = {
    "cond": (
        "Have it behind the cond, of what the cond returns (for a factor, 0.0 in the other "
        "branches), or in every branch."
    ),
    "while": "Have it behind the loop, or use lax.scan or lax.fori_loop with static bounds.",
    "vmap of cond": "Have it behind the cond, or the collective or the effect in front of it.",
}


def explain(error: MisplacedError) -> str:
    """Error message for a misplaced site: the reason and a remedy."""
    site = error.site
    construct = error.construct
    if construct not in _WHY:
        return f"site {describe(site.path)}: {error.message}"
    why = f"site {describe(site.path)} {_WHY[construct]}"
    if site.tag == RANDOM:
        return f"{why}, so that {_VARIABLES[construct]}"
    return f"{why}. {_RECORDS[construct]}"


def check_no_site(eqn: jex.JaxprEqn, tags: Collection[Any]) -> None:
    """Check that no site stands in an equation that an analysis cannot open.

    Raises:
        NotImplementedError: If one does, or may.
    """
    for site in sites_in(eqn):
        if site.tag in tags:
            raise NotImplementedError(
                f"site {describe(site.path)} stands inside of {eqn.primitive.name!r}, into which "
                "ppl cannot look. Move it out."
            )
    if jax_core.has_sow(eqn) and not jax_core.subjaxprs(eqn):
        raise NotImplementedError(
            f"a site may stand inside of {eqn.primitive.name!r}, into which ppl cannot look. Move "
            "it out."
        )
