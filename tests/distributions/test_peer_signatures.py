"""No call by position means something else in another tool: such parameters are keywords."""

import inspect
import re

import pytest

import distributions as dist
from tests.distributions import peer_signatures
from tests.distributions.stub import families

FAMILIES = sorted(name for _, name in families())


def plain(name):
    return name.replace("_", "").lower()


def peers(name):
    """What other tools have for a family: by its own name if they have it, else by others.

    An entry with a note is another distribution, or has other parameters.
    """
    rows = [r for r in peer_signatures.rows() if r["ours"] == name and not r["note"]]
    named = {r["tool"] for r in rows if plain(r["name"]) == plain(name)}
    return [r for r in rows if r["tool"] not in named or plain(r["name"]) == plain(name)]


def our_calls(cls):
    """The calls by position alone that ours takes; not those that lack one of two alternatives."""
    marked = (p.name + "=" * (p.default is not p.empty) for p in peer_signatures.by_position(cls))
    needed = set(alternatives(cls))
    calls = peer_signatures.calls(" ".join(marked))
    return [call for call in calls if not needed or needed & set(call)]


def alternatives(cls):
    groups = cls._row.one_of if hasattr(cls, "_row") else ()
    return [name for group in groups for name in ([group] if isinstance(group, str) else group)]


def confused(cls, rows):
    """The calls by position that ours takes, and another tool with another meaning."""
    calls = our_calls(cls)
    return [
        (row["tool"], row["name"], theirs)
        for row in rows
        for theirs in peer_signatures.calls(row["positions"])
        if theirs not in calls and len(theirs) in map(len, calls)
    ]


def test_a_call_by_position_means_the_same_everywhere():
    found = {name: confused(getattr(dist, name), peers(name)) for name in FAMILIES}
    assert not {name: calls for name, calls in found.items() if calls}


def test_the_order_of_another_tool_is_noticed():
    """Of the binomial distribution as TFP has it, a probability in the place of log odds."""

    def binomial(total_count, logits=None, probs=None): ...

    found = {tool for tool, _, _ in confused(binomial, peers("Binomial"))}
    assert found == {"NumPyro", "Stan", "PyMC", "SciPy"}


def test_probabilities_and_second_alternatives_are_keywords():
    for name in FAMILIES:
        cls = getattr(dist, name)
        by_position = {p.name for p in peer_signatures.by_position(cls)}
        assert by_position.isdisjoint(alternatives(cls)[1:]), name
        if "probs" in alternatives(cls):
            assert by_position.isdisjoint(alternatives(cls)), name


@pytest.mark.parametrize("tool", ["SciPy", "TFP"])
def test_the_table_says_what_the_installed_version_takes(tool):
    rows = [row for row in peer_signatures.rows() if row["tool"] == tool and row["ours"]]
    found = [peer_signatures.positions(tool, row["name"], row["ours"]) for row in rows]
    assert found == [row["positions"] for row in rows]


def test_the_error_says_what_each_keyword_means():
    message = (
        "Binomial: takes total_count by position; got 2. By keyword it takes logits= (the log odds "
        "of success), probs= (the probability of success)"
    )
    with pytest.raises(TypeError, match=re.escape(message)):
        dist.Binomial(10, 0.3)
    with pytest.raises(TypeError, match=r"Weibull: missing concentration= \(the shape\)"):
        dist.Weibull(scale=2.0)


def test_every_keyword_has_a_meaning():
    for name in FAMILIES:
        cls = getattr(dist, name)
        with pytest.raises(TypeError) as error:
            cls(*range(20))
        num = len(inspect.signature(cls).parameters) - len(peer_signatures.by_position(cls))
        assert len(re.findall(r"\w+= \([^)]", str(error.value))) == num, name
