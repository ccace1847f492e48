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
TAGS = (RANDOM, DETERMINISTIC, FACTOR)


class Hidden(enum.Enum):
    """Tags distinct from every string that users may choose.

    Sites hidden by `block` have the tag SITE; draws of summed sites, for `recover`, RECOVERED. The
    log importance weight of these draws stands beside them under LOG_WEIGHT, and the log of the sum
    or integral, which is -inf where there is nothing to draw, under LOG_TOTAL.
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
