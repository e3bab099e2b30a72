"""Picture (a) and (d): words that conclude, gaps that are not zero, labels that keep apart."""

from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from apps.metering.usage.rules.device_states import Spell, State, state_of
from portal.pages.parts.pictures.heat_map import HeatMap, HeatRow, heat_map
from portal.pages.parts.pictures.label_places import spread
from portal.pages.parts.pictures.usage_curves import (
    Slice,
    UsageChart,
    Use,
    round_up,
    share_bar,
    ticks,
    usage_chart,
    usage_table,
)

places = partial(spread, apart=15, low=8, high=172)
BEGINS = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
STEP = timedelta(minutes=5)


def chart(
    *steps: Use, unit: str = "%", shown: frozenset[str] = frozenset(), sliced: bool = False
) -> UsageChart:
    return UsageChart(steps, BEGINS, BEGINS + STEP * len(steps), STEP, unit, shown, sliced)


def step(
    index: int, allocated: float = 100, sm: float | None = 3, smi: float | None = 98, **rest: float
) -> Use:
    return Use(BEGINS + STEP * index, allocated, smi=smi, sm=sm, **{"coverage": 1.0, **rest})


def drawn(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own markup


def paths(svg: str) -> dict[str, str]:
    return {each.attrib["class"]: each.attrib["d"] for each in drawn(svg).iter("path")}


def test_the_conclusion_names_both_figures() -> None:
    assert chart(step(0), step(1)).words == "nvidia-smi says 98 %, SM active 3 %"


def test_in_gpus_the_conclusion_begins_with_what_was_allocated() -> None:
    fleet = chart(step(0, 52, 17.3, 49.1), unit="GPUs")
    assert fleet.words == "Allocated 52.0, nvidia-smi says 49.1, SM active 17.3"


def test_all_figures_of_the_conclusion_speak_of_the_same_time() -> None:
    free, held = step(0, 0, None, None), step(1, 4, 2, 4)
    assert chart(free, held, unit="GPUs").words == "Allocated 4.0, nvidia-smi says 4.0, SM active 2.0"


def test_a_share_weighs_by_what_was_held_and_seen_not_by_step() -> None:
    busy, barely = step(0, 100, 90, 90), step(1, 10, 0, 0)
    assert chart(busy, barely).words.startswith("nvidia-smi says 82 %, SM active 82 %")


def test_what_was_not_measured_is_a_gap_with_a_name_and_never_a_zero() -> None:
    shown = chart(step(0), step(1, sm=None, smi=None, coverage=0.0), step(2))
    assert shown.words == "nvidia-smi says 98 %, SM active 3 %; covers 67 % of the time held"
    svg = usage_chart(shown)
    line = paths(svg)["u-sm"]
    assert line.count("M") == 2
    assert "333.3 97.00L" not in line.split("M")[2]
    hatched = [r for r in drawn(svg).iter("rect") if r.attrib["class"] == "p-unknown"]
    assert [(r.attrib["x"], r.attrib["width"]) for r in hatched] == [("33.333%", "33.333%")]
    assert "no telemetry" in [t.text for t in drawn(svg).iter("text")]
    assert "unknown" in usage_table(shown, "Use")


def test_free_time_is_neither_a_gap_nor_unknown() -> None:
    shown = chart(step(0), step(1, 0, None, None))
    assert "p-unknown" not in usage_chart(shown)
    assert "unknown" not in usage_table(shown, "Use")


def test_lines_are_level_over_each_step() -> None:
    line = paths(usage_chart(chart(step(0, sm=10), step(1, sm=50))))["u-sm"]
    assert line == "M0.0 90.00L500.0 90.00L500.0 50.00L1000.0 50.00"


def test_the_further_lines_are_drawn_when_asked_for_only() -> None:
    steps = [step(0, tensor=20, dram=30)]
    assert {"u-tensor", "u-dram"} & set(paths(usage_chart(chart(*steps)))) == set()
    asked = paths(usage_chart(chart(*steps, shown=frozenset({"tensor", "dram"}))))
    assert {"u-allocated", "u-smi", "u-sm", "u-tensor", "u-dram"} <= set(asked)


def test_slices_have_no_figure_of_nvidia_smi_and_the_picture_says_so() -> None:
    shown = chart(step(0, smi=None, sm=60), sliced=True)
    assert shown.words == "nvidia-smi: no figure, SM active 60 %"
    assert "nvidia-smi: no figure on slices" in usage_chart(shown)


def test_nvidia_smi_stands_beside_what_the_same_devices_did_and_never_speaks_of_slices() -> None:
    mixed = step(0, 5, 2, 2.7, measured=3, beside=1.4)
    shown = chart(mixed, step(1, 5, 2, None, measured=0), unit="GPUs")
    assert shown.words == (
        "Allocated 5.0, SM active 2.0; on the 3.0 GPUs that nvidia-smi measures it says 2.7, SM active 1.4"
    )
    assert "nvidia-smi says 2.7 of 3.0" in usage_chart(shown)
    assert ">2.7 of 3.0<" in usage_table(shown, "Use")
    alone = chart(step(0, 5, 2, None, measured=0), unit="GPUs")
    assert alone.words == "Allocated 5.0, nvidia-smi: no figure, SM active 2.0"


def test_nothing_allocated_is_axes_and_a_word() -> None:
    shown = chart(step(0, 0, None, None))
    assert shown.words == "No allocation"
    assert "No allocation" in [t.text for t in drawn(usage_chart(shown)).iter("text")]


def test_without_any_sample_there_is_no_figure() -> None:
    silent = step(0, 4, sm=None, smi=None, coverage=0.0)
    assert chart(silent).words == "no telemetry: what it did is unknown"
    assert chart(silent, unit="GPUs").words == "Allocated 4.0; no telemetry: what it did is unknown"


@pytest.mark.parametrize(
    "wanted", [[10, 12, 11], [172, 172, 172, 172, 172], [8, 8, 170], [50, 51, 90, 91, 172], [100]]
)
def test_end_labels_never_come_closer_than_fourteen_pixels(wanted: list[float]) -> None:
    placed = sorted(places(wanted))
    assert all(right - left >= 14 for left, right in pairwise(placed))
    assert all(8 <= each <= 172 for each in placed)


def test_end_labels_stay_where_their_lines_end_when_there_is_room() -> None:
    assert places([20, 90, 160]) == [20, 90, 160]


def test_end_labels_keep_the_order_of_their_lines() -> None:
    placed = places([100, 98, 104])
    assert placed[1] < placed[0] < placed[2]


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (0.4, 1), (1.2, 2), (3, 4), (4.4, 5), (17.3, 20), (52, 80), (100, 100), (101, 200)],
)
def test_the_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert round_up(value) == top


@pytest.mark.parametrize("hours", [1, 24, 24 * 7, 24 * 30])
def test_ticks_are_round_few_and_inside(hours: int) -> None:
    ends = BEGINS + timedelta(hours=hours)
    found = ticks(BEGINS + timedelta(minutes=5), ends)
    assert 3 <= len(found) <= 8
    assert all(BEGINS <= at < ends and at.minute in (0, 15, 30, 45) for at, _ in found)


def test_the_table_has_a_row_per_step_and_a_cell_per_line() -> None:
    table = drawn(usage_table(chart(step(0), step(1), shown=frozenset({"dram"})), "Use"))
    rows = table.findall("tbody/tr")
    assert len(rows) == 2
    assert [cell.text for cell in rows[0]] == [None, "100 %", "98 %", "3 %", "-", "100 %"] or len(
        rows[0]
    ) == 6


@pytest.mark.parametrize(
    ("spell", "state"),
    [
        (Spell(10, apart=6, held=4, seen=0), State.MAINTENANCE),
        (Spell(10), State.FREE),
        (Spell(10, held=10, seen=4, hoarded=4), State.UNKNOWN),
        (Spell(10, held=10, seen=10, hoarded=6, idle=3, sm=1), State.HOARDED),
        (Spell(10, held=10, seen=10, hoarded=3, idle=3, sm=4), State.IDLE),
        (Spell(10, held=10, seen=10, idle=2, sm=2.5), State.USED_25),
        (Spell(10, held=10, seen=10, sm=5.1), State.USED_75),
        (Spell(1.43, held=0.2, seen=0.2, sm=0.19), State.USED_100),
    ],
)
def test_a_cell_is_the_first_state_that_holds(spell: Spell, state: State) -> None:
    assert state_of(spell) is state


def test_neighbours_in_one_state_are_one_rectangle() -> None:
    row = HeatRow("gpu-01 3f2a", [State.FREE, State.FREE, State.HOARDED, State.USED_75])
    svg = drawn(heat_map(HeatMap([row], BEGINS, timedelta(minutes=30), "1 device")))
    found = [(r.attrib["class"], r.attrib["x"], r.attrib["width"]) for r in svg.iter("rect")]
    assert found == [
        ("h-free", "0.00%", "50.00%"),
        ("h-hoarded", "50.00%", "25.00%"),
        ("h-used-75", "75.00%", "25.00%"),
    ]


def test_a_bar_of_shares_leaves_out_what_is_nothing() -> None:
    parts = [("m-effective", 1), ("m-idle", 0), ("m-unknown", 3)]
    bar = drawn(share_bar([Slice(kind, kind, size) for kind, size in parts], "x"))
    assert [(r.attrib["class"], r.attrib["width"]) for r in bar.iter("rect")] == [
        ("m-effective", "25.000%"),
        ("m-unknown", "75.000%"),
    ]


def test_pictures_carry_no_style_and_no_markup_from_names() -> None:
    row = HeatRow('"><script>', [State.IDLE])
    text = heat_map(HeatMap([row], BEGINS, STEP, "<b>")) + usage_chart(chart(step(0)))
    assert "style=" not in text
    assert "<script" not in text
    assert "<b>" not in text
