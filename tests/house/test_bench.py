"""What the benchmarks say is what was measured."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench import idle
from bench.audit import PRODUCT, AuditLog, Call
from bench.bare import renamed
from bench.beside import KUEUE, SCHEDULER, admitted
from bench.figures import Ratio


def test_a_ratio_is_taken_round_by_round_so_that_a_slow_round_does_not_count() -> None:
    ratio = Ratio.of([2.0, 20.0, 2.0], [1.0, 10.0, 1.0])
    assert (ratio.value, ratio.low, ratio.high, ratio.rounds) == (2.0, 2.0, 2.0, 3)


def test_the_interval_holds_the_median_and_grows_with_the_spread() -> None:
    even, uneven = Ratio.of([1.0, 1.1, 1.2] * 4, [1.0] * 12), Ratio.of([0.5, 1.1, 4.0] * 4, [1.0] * 12)
    assert even.low <= even.value <= even.high
    assert uneven.high - uneven.low > even.high - even.low


def test_sides_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        Ratio.of([1.0, 2.0], [1.0])


def line(verb: str, resource: str, **more: str) -> str:
    about = {"resource": resource, "namespace": "a", "name": "b", **more}
    at = "2026-01-01T00:00:00.500000Z"
    event = {"user": {"username": PRODUCT}, "verb": verb, "objectRef": about, "responseStatus": {"code": 200}}
    return json.dumps({**event, "requestReceivedTimestamp": at, "stageTimestamp": at}) + "\n"


def test_the_audit_log_is_read_from_where_it_stood_and_half_lines_wait(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(line("create", "pods"))
    log = AuditLog(path)
    whole, half = line("patch", "services"), line("get", "pods", subresource="log")
    with path.open("a") as file:
        file.write(whole + half[:40])
    assert [(call.resource, call.is_write, call.is_read) for call in log.new()] == [("services", True, False)]
    with path.open("a") as file:
        file.write(half[40:])
    assert [(call.resource, call.is_read) for call in log.new()] == [("pods/log", True)]


def test_the_bare_bodies_differ_from_ours_in_their_names_alone() -> None:
    body = {"metadata": {"name": "nb-1", "labels": {"uid": "u-1"}}, "spec": {"claim": "nb-1-home"}}
    (other,) = renamed([body], old={"name": "nb-1", "uid": "u-1"}, new={"name": "nb-2", "uid": "u-2"})
    assert other == {"metadata": {"name": "nb-2", "labels": {"uid": "u-2"}}, "spec": {"claim": "nb-2-home"}}


def test_a_pod_is_admitted_by_kueues_last_write_on_it_before_it_is_bound() -> None:
    def call(user: str, what: str, at: float, name: str, namespace: str = "a") -> Call:
        verb, _, resource = what.partition(" ")
        return Call(user, verb, resource, namespace, name, 201 if verb == "create" else 200, at, at)

    calls = [
        call(KUEUE, "patch pods", 1.0, "grouped"),
        call(KUEUE, "patch pods", 2.0, "grouped"),
        call(SCHEDULER, "create pods/binding", 3.0, "grouped"),
        call(KUEUE, "patch pods", 4.0, "grouped"),
        call(KUEUE, "patch pods", 1.5, "waits"),
        call(KUEUE, "patch pods", 1.5, "grouped", "b"),
        call("somebody", "patch pods", 2.5, "grouped"),
    ]
    assert admitted(calls, "a") == [2.0]


def test_a_demo_that_never_rests_is_measured_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an hour of workloads is not thrown away for it: the lines say that it was not quiet."""
    parts: dict[str, list[int]] = {part: [] for part in (*idle.PARTS, *idle.BESIDE)}
    for name, value in {
        "PATIENCE": 0,
        "SETTLED": 0,
        "_wave": lambda *_: None,
        "_pids": lambda _: parts,
    }.items():
        monkeypatch.setattr(idle, name, value)
    monkeypatch.setattr(idle, "_running", lambda pid: nullcontext(idle.Demo(pid, tmp_path, "")))
    before, memory, after = idle.rest(1, seconds=0.01, workloads=20)
    assert [each["quiet"] for each in (before, memory, after)] == [False] * 3
    assert (memory["workloads"], memory["mb_per_1000"]) == (20, 0)
    assert (before["what"], after["what"]) == (
        "CPU at rest, % of one core",
        "CPU at rest after 20 workloads, % of one core",
    )
