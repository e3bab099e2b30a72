"""What a request reads twice it reads once, and only from where its scope begins to where it ends."""

from threading import Thread

import pytest

from apps.cluster.request_cache import is_open, memo, scope


class Counted:
    """Answers how often it was read."""

    def __init__(self) -> None:
        self.times = 0

    def read(self) -> int:
        self.times += 1
        return self.times


def test_outside_of_a_scope_nothing_is_kept() -> None:
    each = Counted()
    assert [memo("k", each.read), memo("k", each.read)] == [1, 2]
    assert not is_open()


def test_inside_each_key_is_read_once_and_another_key_by_itself() -> None:
    each = Counted()
    with scope():
        assert [memo(("k", 1), each.read), memo(("k", 1), each.read), memo(("k", 2), each.read)] == [1, 1, 2]
    assert memo(("k", 1), each.read) == 3


def test_a_scope_within_another_is_part_of_it() -> None:
    each = Counted()
    with scope():
        with scope():
            memo("k", each.read)
        assert is_open()
        assert memo("k", each.read) == 1


def test_nothing_found_is_kept_too_and_a_failure_is_not() -> None:
    asked: list[str] = []

    def nothing() -> int | None:
        asked.append("read")
        return None

    def fails() -> int:
        raise LookupError

    with scope():
        assert memo("none", nothing) is memo("none", nothing) is None
        with pytest.raises(LookupError):
            memo("k", fails)
        assert memo("k", lambda: 2) == 2
    assert asked == ["read"]


def test_a_scope_is_of_one_thread() -> None:
    seen: list[bool] = []
    with scope():
        other = Thread(target=lambda: seen.append(is_open()))
        other.start()
        other.join()
    assert seen == [False]


def test_a_scope_ends_with_a_failure() -> None:
    with pytest.raises(ValueError, match="torn"), scope():
        raise ValueError("torn")
    assert not is_open()
