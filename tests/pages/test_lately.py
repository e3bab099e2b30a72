"""What each device told last: on its node's page and in REST, the unknown named so."""

import pytest

from apps.metering.telemetry.selectors.latest import RATES, RATIOS
from tests.conftest import SignedIn
from tests.pages.conftest import Scene
from tests.pages.telling import tell
from tests.workloads.rest import Api


@pytest.fixture
def told(scene: Scene) -> Scene:
    tell(scene)
    return scene


def test_the_nodes_page_shows_the_last_sample_of_each_device(told: Scene, signed_in: SignedIn) -> None:
    shown = signed_in(told.cast.petra).get("/console/nodes/gpu-01/").content.decode()
    for words in (
        'class="figure nowrap">25.0 %<',
        'class="figure nowrap">12.5 %<',
        'data-label="Tensor active" class="figure">unknown<',
        'class="figure nowrap">2.5 MB/s<',
        "1,980 MHz",
        "power cap, hardware thermal slowdown",
        "71 °C",
        "652 W",
        "2.00 kWh",
    ):
        assert words in shown, words
    assert "50.0 %" not in shown
    assert shown.count('data-label="SM active"') == 2
    for name in {**RATIOS, **RATES}.values():
        assert shown.count(f'<th scope="col" class="figure">{name}</th>') == 1, name
    empty = signed_in(told.cast.petra).get("/console/nodes/gpu-02/").content.decode()
    assert "Nothing was heard of this node" in empty or "Last sample" not in empty


def test_rest_has_the_same_and_null_for_the_unknown(told: Scene) -> None:
    path = "/api/v1/nodes/gpu-01/telemetry"
    first, second = Api(told.cast.ann).client.get(path).json()["items"]
    assert (first["sm_occupancy"], first["gpu_util"], first["nvlink_bytes_per_second"]) == (0.25, 0.98, None)
    assert first["throttled_by"] == ["power cap", "hardware thermal slowdown"]
    assert (first["energy_joules"], first["power_watts"]) == (7_200_000, 652.4)
    assert (second["at"], second["sm_active"], second["throttled_by"]) == (None, None, None)
    assert Api(told.cast.rosa).client.get(path).status_code == 404
    assert Api(told.cast.petra).client.get("/api/v1/nodes/nowhere/telemetry").status_code == 404


def test_a_nodes_page_folds_what_nobody_holds(scene: Scene, signed_in: SignedIn) -> None:
    shown = signed_in(scene.cast.petra).get("/console/nodes/gpu-01/").content.decode()
    before, fold, folded = shown.partition('<details class="more aside" id="free-')
    assert fold
    assert '<span class="muted">free</span>' not in before
    assert '<span class="muted">free</span>' in folded
