"""Names of sites: paths of scopes, as tables and errors print them."""

from collections.abc import Hashable, Iterable


def join_scopes(path: tuple[Hashable, ...]) -> str:
    """Path of a site as one name, scopes joined by dots: `a.x`."""
    return ".".join(map(str, path))


def describe(path: tuple[Hashable, ...]) -> str:
    """Path of a site as errors print it: `'a.x'`."""
    return repr(join_scopes(path))


def describe_all(paths: Iterable[tuple[Hashable, ...]]) -> str:
    """Paths of sites as errors print them: `'a.x', 'y'`."""
    return ", ".join(map(describe, paths))
