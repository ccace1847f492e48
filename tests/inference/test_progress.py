"""How many steps a call is given."""

import types

import pytest

from inference.runtime import progress
from inference.runtime.progress import Pace


@pytest.mark.parametrize(
    ("seconds", "numbers"),
    [(0.0, [64, 256, 1000, 1000]), (0.1, [64, 64, 64]), (3.0, [64, 32, 16, 8, 4, 2, 1, 1])],
    ids=["quick", "as wanted", "slow"],
)
def test_calls_come_to_take_a_tenth_of_a_second(monkeypatch, seconds, numbers):
    now = iter(range(10**6))
    clock = types.SimpleNamespace(monotonic=lambda: seconds * next(now))
    monkeypatch.setattr(progress, "time", clock)
    pace, found = Pace(1000), []
    for _ in numbers:
        found.append(pace.num_steps)
        with pace.call():
            pass
    assert found == numbers


def test_no_call_has_more_steps_than_there_is_room_for():
    assert Pace(10).num_steps == 10
