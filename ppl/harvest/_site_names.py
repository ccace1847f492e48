"""Names of sites: paths of scopes, as tables and errors print them."""

from collections.abc import Hashable


def join_scopes(path: tuple[Hashable, ...]) -> str:
    """Path of a site as one name, scopes joined by dots: `a.x`."""
    return ".".join(map(str, path))


def describe(path: tuple[Hashable, ...]) -> str:
    """Path of a site as errors print it: `'a.x'`."""
    return repr(join_scopes(path))
