"""Conditions remember since when."""

from datetime import UTC, datetime, timedelta

from apps.cluster.objects.conditions import condition, find, is_true, merge, set_condition

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def test_since_moves_only_when_the_status_changes() -> None:
    later = NOW + timedelta(minutes=5)

    first = set_condition([], condition("Ready", False, "Pending"), generation=1, now=NOW)
    same = set_condition(first, condition("Ready", False, "Slow", "m"), generation=2, now=later)
    other = set_condition(same, condition("Ready", True, "Ready"), generation=2, now=later)

    assert same[0]["since"] == "2026-11-20T09:00:00Z"
    assert same[0]["reason"] == "Slow"
    assert same[0]["observed_generation"] == 2
    assert other[0]["since"] == "2026-11-20T09:05:00Z"
    assert first[0]["reason"] == "Pending", "the input stays as it was"


def test_conditions_keep_their_places() -> None:
    facts = [condition("Synced", True, "Applied"), condition("Ready", None, "Unknown")]
    both = merge([], facts, generation=1, now=NOW)

    again = merge(both, [condition("Synced", False, "Rejected", "no")], generation=2, now=NOW)

    assert [entry["type"] for entry in again] == ["Synced", "Ready"]
    assert not is_true(again, "Synced")
    ready = find(again, "Ready")
    assert ready is not None
    assert ready["status"] == "Unknown"
    assert find(again, "Absent") is None
