"""The kinds of site that a model has, and the tags under which they are sown."""

import enum

from ppl.harvest._sow import Site

LATENT, OBSERVED, DETERMINISTIC, FACTOR = "latent", "observed", "deterministic", "factor"
RANDOM = "random"  # the tag of latent and observed sites; the other kinds are their own tags
PARAM = "param"  # of guides
TAGS = (RANDOM, DETERMINISTIC, FACTOR)


class Hidden(enum.Enum):
    """The tag of sites that are hidden by block; tags that are strings are free for users."""

    SITE = enum.auto()


def kind_of(site: Site) -> str:
    """The kind of a site; what else was sown with one of the tags has none: ''."""
    if site.note in (LATENT, OBSERVED):
        return site.note if site.tag == RANDOM else ""
    return str(site.note) if site.note == site.tag else ""
