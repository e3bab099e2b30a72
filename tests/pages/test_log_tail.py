"""New lines are added below those that a page shows; none twice, none lost."""

from apps.workloads.lifecycle.rules.log_tail import after, mark, matching


def test_only_the_lines_behind_the_mark_are_new() -> None:
    shown = ["one", "two", "three"]
    assert after([*shown, "four", "five"], mark(shown)) == ["four", "five"]


def test_nothing_new_is_nothing() -> None:
    assert after(["one", "two"], mark(["one", "two"])) == []


def test_a_line_that_comes_again_is_not_taken_for_the_end() -> None:
    shown = ["epoch", "loss 2", "saved"]
    assert after([*shown, "epoch", "loss 1", "saved"], mark(shown)) == ["epoch", "loss 1", "saved"]


def test_the_window_may_have_moved_on() -> None:
    shown = ["a", "b", "c", "d"]
    assert after(["b", "c", "d", "e"], mark(shown)) == ["e"]


def test_a_mark_that_is_gone_shows_everything() -> None:
    assert after(["x", "y"], mark(["long", "past"])) == ["x", "y"]


def test_without_a_mark_everything_is_new() -> None:
    assert after(["x"], "") == ["x"]
    assert mark([]) == ""


def test_a_search_keeps_the_lines_that_have_it_and_marks_where() -> None:
    lines = ["Loss 0.3", "saved", "loss: LOSS (nan)"]
    assert matching(lines, "loss") == [["", "Loss", " 0.3"], ["", "loss", ": ", "LOSS", " (nan)"]]
    assert matching(lines, "(nan)") == [["loss: LOSS ", "(nan)", ""]]
    assert matching(lines, "") == [["Loss 0.3"], ["saved"], ["loss: LOSS (nan)"]]
    assert matching(lines, "oom") == []
