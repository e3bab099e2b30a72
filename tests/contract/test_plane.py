"""The real control plane still answers what is recorded: the same checks, on a plane of their own.

Their own, because a real namespace controller is busy for minutes with the hundreds of namespaces left to it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract import compare, record, runner
from tests.contract.servers import plane

pytestmark = [pytest.mark.plane, pytest.mark.timeout(600)]
THREADS = 12


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, runner.Outcome]]:
    with plane(tmp_path_factory.mktemp("plane")) as path, runner.cluster(path) as opened:
        yield runner.run(opened, runner.find(), THREADS)


@pytest.mark.parametrize("group", runner.groups())
def test_the_real_control_plane_answers_as_recorded(outcomes: dict[str, runner.Outcome], group: str) -> None:
    mine = {name: outcome for name, outcome in outcomes.items() if name.startswith(f"{group}.")}
    assert mine
    wrong = compare.complaints(mine, record.load())
    assert not wrong, "\n\n".join(f"{name}:\n{told}" for name, told in wrong.items())
