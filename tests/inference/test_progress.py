"""How many steps a call is given, and how far a loop is said to be."""

import io
import sys
import types

import pytest

from inference.runtime import progress
from inference.runtime.progress import Pace, show_progress


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


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("is_shown", [None, True])
def test_a_terminal_shows_a_bar_that_begins_with_compiling(monkeypatch, is_shown):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with show_progress(is_shown, 10) as report:
        assert "compiling" in sys.stderr.getvalue()
        report(10, "draws", "ELBO 1.5")
    last = sys.stderr.getvalue().split("\r")[-1]
    assert "draws" in last
    assert "10/10" in last
    assert "ELBO 1.5" in last


def test_what_is_no_boolean_is_refused():
    with (
        pytest.raises(TypeError, match="progress_bar must be True, False or None, got 'no'"),
        show_progress("no", 10),
    ):
        pass


def test_nothing_is_shown_where_nobody_looks(monkeypatch, capsys):
    with show_progress(None, 10) as report:
        report(10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", Terminal())
    with show_progress(False, 10) as report:
        report(10)
    assert sys.stderr.getvalue() == ""


def test_a_log_file_gets_a_line_every_ten_seconds(monkeypatch, capsys):
    now = iter([0.0, 5.0, 12.0, 15.0, 23.0, 24.0])
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: next(now)))
    with show_progress(True, 100, "iteration") as report:
        for num_done in (10, 30, 40, 60, 100):
            report(num_done, "warm-up" if num_done < 50 else "draws")
    assert capsys.readouterr().err.splitlines() == [
        "warm-up, 30 of 100 iterations after 12 s",
        "draws, 60 of 100 iterations after 23 s",
        "draws, 100 of 100 iterations after 24 s",
    ]


def test_a_program_without_standard_error_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with show_progress(None, 10) as report:
        report(10)
