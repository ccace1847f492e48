"""Kinds of site in a model, and the tags under which they are sown."""

import enum

from ppl.harvest.sowing import Site

LATENT = "latent"
OBSERVED = "observed"
DETERMINISTIC = "deterministic"
FACTOR = "factor"
RANDOM = "random"  # the tag of latent and observed sites; each other kind is its own tag
SUMMED = "summed"  # in graphs: a latent site that was summed out
PARAM = "param"  # the tag of parameters of guides
STATE = "state"  # the tag of state that a fit carries from step to step
NEW_STATE = "new_state"  # the tag of its next value
TAGS = (RANDOM, DETERMINISTIC, FACTOR)


class Hidden(enum.Enum):
    """Tags distinct from every string that users may choose.

    | tag        | values                                                                         |
    |------------|--------------------------------------------------------------------------------|
    | SITE       | sites hidden by `block`                                                        |
    | RECOVERED  | draws of summed sites, for `recover`                                           |
    | LOG_WEIGHT | log importance weights of these draws                                          |
    | LOG_TOTAL  | the log of the sum or integral; -inf if no draw is possible                    |
    """

    SITE = enum.auto()
    RECOVERED = enum.auto()
    LOG_WEIGHT = enum.auto()
    LOG_TOTAL = enum.auto()


def kind_of(site: Site) -> str:
    """The kind of a site, or '' for a sow of the user's own under one of the tags."""
    if site.note in (LATENT, OBSERVED):
        return site.note if site.tag == RANDOM else ""
    return str(site.note) if site.note == site.tag else ""
