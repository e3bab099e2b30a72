"""The sandbox answers what the real control plane answered, but for the listed differences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import compare, record, report, runner
from tests.contract.api import Cluster
from tests.contract.servers import sandbox
from tests.controlplane import binaries

pytestmark = pytest.mark.programs

THREADS = 12


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with sandbox(tmp_path_factory.mktemp("box")) as path, runner.cluster(path) as opened:
        yield opened


@pytest.mark.parametrize("group", runner.groups())
def test_the_sandbox_answers_as_the_real_control_plane_did(box: Cluster, group: str) -> None:
    if group.startswith(runner.KUBECTL) and binaries.find() is None:
        pytest.skip("kubectl is built by `python -m tests.controlplane build`")
    outcomes = runner.run(box, runner.find([group]), THREADS)
    wrong = compare.complaints(outcomes, record.load(), compare.differences())
    assert not wrong, "\n\n".join(f"{name}:\n{told}" for name, told in wrong.items())


def test_the_report_in_the_documents_is_the_generated_one(box: Cluster) -> None:
    written = report.PLACE.read_text()
    assert written == report.render(record.load(), compare.differences(), record.served(box))


def test_what_is_not_simulated_says_so(box: Cluster) -> None:
    absent = sorted(set(record.load().served) - set(record.served(box)))
    assert absent
    for entry in absent:
        version, _, name = entry.rpartition("/")
        path = f"/api/{version}/{name}" if version == "v1" else f"/apis/{version}/{name}"
        answer = box.http.get(path)
        assert answer.status_code == 501, entry
        assert "needs a real cluster" in answer.json()["message"], entry


def test_no_more_than_ten_differences_are_listed_each_with_its_reason() -> None:
    listed = compare.differences()
    known = {check.id for check in runner.find()}
    assert len(listed) <= compare.MOST
    assert set(listed) <= known
    assert all(entry.reason.strip() and entry.notice.strip() for entry in listed.values())


def test_every_check_is_recorded_and_every_record_has_its_check() -> None:
    checks = {check.id for check in runner.find()}
    assert checks == set(record.load().observations)
    assert len(checks) >= 120


def test_a_difference_that_is_gone_counts_as_wrong() -> None:
    outcome = runner.Outcome({"status": 200}, None, 0.0)
    kept = record.Record({}, [], {"a.b": {"status": 200}})
    listed = {"a.b": compare.Difference("a.b", "none", "nothing")}
    assert compare.complaints({"a.b": outcome}, kept) == {}
    assert "no longer differs" in compare.complaints({"a.b": outcome}, kept, listed)["a.b"]


def test_an_answer_unlike_the_record_is_shown_with_both_sides() -> None:
    outcome = runner.Outcome({"status": 201}, None, 0.0)
    told = compare.complaints({"a.b": outcome}, record.Record({}, [], {"a.b": {"status": 200}}))["a.b"]
    assert '- "status": 200' in told
    assert '+ "status": 201' in told


def test_a_run_with_a_failed_check_is_no_record(box: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.b"):
        record.save(box, {"a.b": runner.Outcome(None, "it broke", 0.0)}, tmp_path / "record.json")
    assert not (tmp_path / "record.json").exists()
