"""The short way through Prometheus' JSON finds what the long way finds, or lets it go."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from apps.metering.telemetry.rules.sources import matrix
from apps.metering.telemetry.rules.sources.fields import FIELDS
from apps.metering.telemetry.rules.sources.matrix import Many, Series
from apps.metering.telemetry.rules.sources.naming import LabelNames
from apps.metering.telemetry.rules.sources.prometheus import SETTLE, Believed, Prometheus
from apps.metering.telemetry.rules.sources.reading import COLUMNS, Batch, SourceSilent
from apps.metering.telemetry.rules.sources.table import Table

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
STEP = timedelta(seconds=30)
SM = "DCGM_FI_PROF_SM_ACTIVE"
Pairs = list[list[Any]]


class Answers:
    """In the place of `Web`."""

    def __init__(self, bodies: dict[str, bytes]) -> None:
        self.bodies = bodies

    def get(self, url: str, query: dict[str, str]) -> bytes:
        del url
        name = query["query"].partition("{")[0]
        return self.bodies.get(name, body())


def body(*series: tuple[dict[str, str], Pairs]) -> bytes:
    found = [{"metric": dict(sorted(labels.items())), "values": pairs} for labels, pairs in series]
    return orjson.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}})


def labels(name: str, gpu: int = 0, **more: str) -> dict[str, str]:
    return {
        "__name__": name,
        "UUID": f"GPU-{gpu}",
        "Hostname": f"n{gpu // 8}",
        "job": "dcgm-exporter",
        **more,
    }


def times(count: int, *, begins: datetime = NOON) -> list[float]:
    return [begins.timestamp() + 30 * n + 0.25 for n in range(1, count + 1)]


def read(bodies: dict[str, bytes]) -> Batch:
    web: Any = Answers(bodies)
    source = Prometheus("http://p", web, Believed("dcgm-exporter"), STEP)
    (batch,) = source.read(NOON, NOON + timedelta(minutes=9) + SETTLE)
    return batch


def both_ways(bodies: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Batch:
    short = read(bodies)
    with monkeypatch.context() as patch:
        patch.setattr(matrix, "quick", lambda *_: None)
        long = read(bodies)
    assert short.every() == long.every()
    assert short.troubles == long.troubles
    return short


def test_a_fleet_is_read_alike_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    texts: tuple[Callable[[], str], ...] = (
        lambda: str(chance.randrange(100)), lambda: f"{chance.random():.6f}", lambda: "1", lambda: "0",
        lambda: "1e-05", lambda: str(chance.randrange(2**62)), lambda: "9223372036854775792", lambda: "-3",
    )  # fmt: skip
    for _ in range(20):
        bodies = {}
        for name in FIELDS:
            usual, odd = chance.choice(texts), chance.choice(texts)
            bodies[name] = body(*(
                (labels(name, gpu), [[at, (odd if chance.random() < 0.02 else usual)()] for at in times(12)])
                for gpu in range(9)
            ))  # fmt: skip
        batch = both_ways(bodies, monkeypatch)
        assert batch.count == 9 * 12


def test_ordinary_bodies_go_the_short_way_and_become_blocks() -> None:
    raw = body(
        (labels(SM), [[at, "0.5"] for at in times(10)]), (labels(SM, 1), [[at, "1"] for at in times(10)])
    )
    first, second = one_by_one(matrix.quick(raw, matrix.count(raw), SM, matrix.Devices()))
    assert (first.labels["UUID"], first.times, first.told) == ("GPU-0", times(10), [0.5] * 10)
    assert (second.labels["UUID"], second.told) == ("GPU-1", [1] * 10)
    batch = read({SM: raw})
    assert [len(block.times) for block in batch.blocks] == [10, 10]
    assert batch.readings == []


def test_labels_and_times_are_kept_once_for_all_fields_of_a_device() -> None:
    known = matrix.Devices()
    asked = ((SM, (0, 1)), ("DCGM_FI_DEV_GPU_UTIL", (0, 1)), ("DCGM_FI_DEV_FB_USED", (1,)))
    bodies = [(name, body(*((labels(name, gpu), PAIRS) for gpu in gpus))) for name, gpus in asked]
    first, second, third = (
        one_by_one(matrix.quick(raw, matrix.count(raw), name, known)) for name, raw in bodies
    )
    for each in (second[0], third[0]):
        same = first[0] if each is second[0] else first[1]
        assert each.labels is same.labels
        assert each.times is same.times


def test_a_run_whose_times_differ_in_one_field_is_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    late = [[at + 1, "7"] for at in times(9)]
    used = "DCGM_FI_DEV_FB_USED"
    bodies = {
        SM: body(*((labels(SM, gpu), PAIRS) for gpu in range(3))),
        used: body((labels(used), PAIRS), (labels(used, 1), late), (labels(used, 2), PAIRS)),
        "DCGM_FI_DEV_FB_FREE": body(*((labels("DCGM_FI_DEV_FB_FREE", gpu), PAIRS) for gpu in range(3))),
    }
    batch = both_ways(bodies, monkeypatch)
    assert (len(batch.blocks), batch.count) == (2, 4 * 9)


def test_fractions_are_rounded_as_python_rounds() -> None:
    chance = random.Random(5)
    told = [0.0, 1.0, 5e-07, 1.5e-06, 2.5e-06, 0.4999995, 1e-320, 0.9999995, 0, 1]
    told += [chance.random() for _ in range(500)] + [chance.randrange(10**7) / 1e7 for _ in range(500)]
    table = Table(LabelNames())
    table.add(SM, {"UUID": "GPU-1"}, times(len(told)), told)
    sm = COLUMNS.index("sm_active")
    assert [each.values[sm] for each in table.readings()] == [round(value * 1e6) for value in told]


def test_what_one_of_many_cannot_have_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = [[at, "-1"] for at in times(9)]
    batch = both_ways({SM: body((labels(SM), PAIRS), (labels(SM, 1), odd))}, monkeypatch)
    found = {each.device.uuid: set(each.values) - {None} for each in batch.every()}
    assert found == {"GPU-0": {500_000}, "GPU-1": set()}
    assert [trouble.kind for trouble in batch.troubles] == ["out-of-range"]


def one_by_one(found: Iterator[Series | Many] | None) -> list[Series]:
    return [one for each in found or () for one in (each.series() if isinstance(each, Many) else [each])]


HOSTILE = 'n},"values":[[1,"2"]],{"metric":{"UUID":"GPU-9"'
PAIRS: Pairs = [[at, "0.5"] for at in times(9)]


def test_a_label_cannot_pass_for_the_end_of_a_series(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = body((labels(SM, modelName=HOSTILE), PAIRS), (labels(SM, 1, modelName='a"]]},;[['), PAIRS))
    batch = both_ways({SM: raw}, monkeypatch)
    assert {each.device.model for each in batch.blocks} == {HOSTILE, 'a"]]},;[['}


@pytest.mark.parametrize("odd", ["NaN", "+Inf", "true", "null", "1;2", "1,2", "{}", "01", ""])
def test_what_is_no_number_is_read_as_text(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    series = [(labels(SM, gpu), PAIRS) for gpu in range(40)]
    series[3] = labels(SM, 3), [*PAIRS[:-1], [PAIRS[-1][0], odd]]
    batch = both_ways({SM: body(*series)}, monkeypatch)
    assert batch.count == 40 * 9


@pytest.mark.parametrize("odd", ["NaN", "null", "1,2", "1,2,3", "", f"1,{times(9)[-1]}"])
def test_nor_where_the_devices_and_their_times_are_known(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dram = "DCGM_FI_PROF_DRAM_ACTIVE"
    first = [(labels(SM, gpu), PAIRS) for gpu in range(40)]
    then = [(labels(dram, gpu), PAIRS) for gpu in range(40)]
    then[39] = labels(dram, 39), [*PAIRS[:-1], [PAIRS[-1][0], odd]]
    batch = both_ways({SM: body(*first), dram: body(*then)}, monkeypatch)
    at = COLUMNS.index("dram_active")
    told = [each.values[at] for each in batch.every() if each.device.uuid == "GPU-39"]
    assert told == [500_000] * 8 + [None]


@pytest.mark.parametrize(
    "raw",
    [
        body((labels(SM), []), (labels(SM, 1), PAIRS)),
        body((labels(SM), PAIRS)).replace(b",", b", "),
        body((labels(SM), PAIRS)).replace(b"]]}]}}", b']]}]},"warnings":["slow"]}'),
        body((labels(SM), PAIRS)).replace(b"]]}]}}", b']],"histograms":[]}]}}'),
        body(),
    ],
    ids=["empty", "spaces", "warnings", "histograms", "nothing"],
)
def test_what_looks_different_goes_the_long_way(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert matrix.quick(raw, matrix.count(raw), SM, matrix.Devices()) is None
    both_ways({SM: raw}, monkeypatch)


@pytest.mark.parametrize("cut", [1, 5, 40, 200])
def test_a_body_that_was_cut_off_goes_the_long_way(cut: int) -> None:
    raw = body((labels(SM), PAIRS), (labels(SM, 1), PAIRS))
    assert matrix.quick(raw[:-cut], matrix.count(raw), SM, matrix.Devices()) is None


@pytest.mark.parametrize("broken", [b'{"metric":{UUID:', b'"values":[["x"'])
def test_what_turns_out_to_be_no_json_is_silence(broken: bytes) -> None:
    raw = body((labels(SM), PAIRS), (labels(SM, 1), PAIRS))
    first = b'{"metric":{"Hostname":' if b"metric" in broken else b'"values":[[1'
    with pytest.raises(SourceSilent, match="not answer with Prometheus' JSON"):
        read({SM: raw.replace(first, broken, 1)})


def test_a_series_with_other_times_than_its_device_is_put_in_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = "DCGM_FI_DEV_FB_USED"
    late = [[at + 0.5, "7"] for at in times(9)]
    batch = both_ways({SM: body((labels(SM), PAIRS)), used: body((labels(used), late))}, monkeypatch)
    assert batch.blocks == []
    assert batch.count == 18


def test_times_that_were_not_asked_for_are_lies_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    lies = [[at + 86_400, "0.5"] for at in times(2)]
    batch = both_ways({SM: body((labels(SM), PAIRS + lies))}, monkeypatch)
    assert [trouble.kind for trouble in batch.troubles] == ["clock-lies"]
    assert batch.count == 9


def test_a_time_without_a_value_is_no_value_of_another() -> None:
    run = matrix.Run([Series({}, [1.0, 2.0], [5.0, 6.0])])
    assert run.values([b'1,"5"],[2,"6']) == [5, 6]
    assert run.values([b'1,"5"],["2']) is None
