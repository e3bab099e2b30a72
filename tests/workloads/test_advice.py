"""Advice by itself: which offer for which need, in which order, and the words for it."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from apps.quotas.catalogue.rules.room import fits
from apps.quotas.specs import SharingMode
from apps.workloads.advice.rules.advising import advise, each_of, starts_now
from apps.workloads.advice.rules.models import Model, Precision, Task, is_trainable
from apps.workloads.advice.rules.situations import (
    ISOLATED,
    Advice,
    Facts,
    Fleet,
    Need,
    Policies,
    Prices,
    Ranked,
    Start,
    Why,
)
from apps.workloads.advice.rules.table import TABLE, row_of
from apps.workloads.purpose_specs import Purpose
from apps.workloads.waiting.rules.eta import Interval
from apps.workloads.waiting.rules.situation import Holder
from apps.workloads.waiting.rules.smaller import Smaller, shrunk
from tests.factories import NOW

GIB = 1024**3
VISION = Policies("vision")
HOURLY = {
    "t4": "0.35", "h100": "2.94", "h100-1g": "0.42", "h100-3g": "1.26", "h100-spot": "1.03",
    "a100-ts": "0.53", "h100-mps": "0.42",
}  # fmt: skip
PRICES = Prices({slug: Decimal(price) for slug, price in HOURLY.items()}, "EUR")


def offer(slug: str, gib: int, mode: SharingMode = SharingMode.EXCLUSIVE, **more: object) -> Facts:
    found = Facts(
        slug, slug, mode, gib * GIB, capacity=16, places=(8, 8), largest=8, reachable=16, available=16
    )
    return replace(found, **more)  # type: ignore[arg-type]


T4, H100 = offer("t4", 16), offer("h100", 80)
SLICE = offer("h100-1g", 10, SharingMode.MIG, share=Fraction(1, 7), places=(14, 14), largest=14)
WIDE = offer("h100-3g", 40, SharingMode.MIG, share=Fraction(3, 7))
SPOT = offer("h100-spot", 80, is_spot=True)
SLICED = offer("a100-ts", 80, SharingMode.TIME_SLICING, share=Fraction(1, 4))
MPS = offer("h100-mps", 10, SharingMode.MPS, share=Fraction(1, 7))
EVERY = (T4, H100, SLICE, WIDE, SPOT, SLICED, MPS)


def need(gib: int, purpose: Purpose = Purpose.INTERACTIVE, **more: object) -> Need:
    return replace(Need(purpose, gib * GIB), **more)  # type: ignore[arg-type]


def asked(wish: Need, *offers: Facts, policies: Policies = VISION, prices: Prices = PRICES) -> Advice:
    return advise(wish, Fleet(offers or EVERY, NOW), prices, policies)


def order(found: Advice) -> list[str]:
    return [each.offer.slug for each in found.ranked]


def of(found: Advice, slug: str) -> Ranked:
    return next(each for each in found.ranked if each.offer.slug == slug)


def reason(found: Advice, slug: str) -> tuple[Why, str]:
    return next((out.why, out.words) for out in found.left_out if out.offer.slug == slug)


def test_a_notebook_of_8_gib_gets_the_cheapest_sound_offer_and_the_whole_h100_is_warned_of() -> None:
    found = asked(need(8))
    assert order(found) == ["t4", "h100-1g", "h100-mps", "a100-ts", "h100-3g", "h100"]
    (warning,) = of(found, "h100").warnings
    assert warning == (
        "8 GiB of its 80 GiB are needed, and all of it is paid for. t4 does for 0.35 EUR an hour."
    )
    assert of(found, "h100-1g").speaks_against == ("t4 costs no more and is a whole GPU.",)


def test_a_mistake_ranks_behind_what_is_none_even_if_it_alone_starts_now() -> None:
    found = asked(need(8), replace(SLICE, places=()), H100)
    assert [(each.offer.slug, each.start) for each in found.ranked] == [
        ("h100-1g", Start.UNKNOWN),
        ("h100", Start.NOW),
    ]


@pytest.mark.parametrize("mode", [SharingMode.TIME_SLICING, SharingMode.MPS, SharingMode.FRACTION])
@pytest.mark.parametrize(
    ("purpose", "at_once"), [(Purpose.TRAINING, 1), (Purpose.SERVING, 1), (Purpose.SERVING, 3)]
)
def test_shared_gpus_are_a_mistake_for_training_and_for_a_promise_however_many(
    purpose: Purpose, at_once: int, mode: SharingMode
) -> None:
    found = asked(need(8, purpose, at_once=at_once), replace(SLICED, mode=mode), replace(H100, places=()))
    assert order(found) == ["h100", "a100-ts"]
    assert of(found, "a100-ts").warnings


def test_slices_are_not_put_together_and_whole_gpus_are() -> None:
    found = asked(need(134, Purpose.TRAINING))
    assert [(each.offer.slug, each.each, each.hourly) for each in found.ranked] == [
        ("h100", 2, Decimal("5.88"))
    ]
    why, words = reason(found, "h100-3g")
    assert (why, "no NVLink" in words) == (Why.MEMORY, True)
    assert reason(found, "t4") == (Why.TOO_WIDE, "It takes 9 of them on one node; no node has more than 8.")
    assert "spread over 2 GPUs" in of(found, "h100").speaks_against[0]


def test_seven_small_whole_gpus_beat_one_large_one_cut_in_seven() -> None:
    found = asked(need(8, Purpose.BATCH, at_once=7))
    assert (found.situation, order(found)[0]) == ("Many small ones", "t4")
    assert found.comparison is not None
    lines = [(line.offer.slug, line.hourly, line.words) for line in found.comparison.lines]
    assert lines[:2] == [
        ("t4", Decimal("2.45"), "7 whole GPUs"),
        ("h100-1g", Decimal("2.94"), "7 of the 7 slices of 1 GPU"),
    ]
    assert found.comparison.words == (
        "7 × t4 cost 2.45 EUR an hour, 7 × h100-1g cost 2.94 EUR an hour: whole GPUs cost no more than "
        "slices, and are simpler."
    )


def test_where_slices_are_cheaper_the_table_says_so_and_without_both_there_is_none() -> None:
    dear = Prices({**PRICES.hourly, "t4": Decimal(1)}, "EUR")
    found = asked(need(8, at_once=7), T4, SLICE, prices=dear)
    assert found.comparison is not None
    assert found.comparison.words.endswith("slices are cheaper here.")
    assert [line.offer.slug for line in found.comparison.lines] == ["h100-1g", "t4"]
    assert asked(need(8), SLICE, SLICED).comparison is None
    assert asked(need(8, may_be_interrupted=True), SLICE, SPOT).comparison is None


def test_who_wants_it_cheap_has_price_before_start() -> None:
    busy = replace(T4, places=())
    assert order(asked(need(8), busy, SLICE)) == ["h100-1g", "t4"]
    assert order(asked(need(8, is_thrifty=True), busy, SLICE)) == ["t4", "h100-1g"]


def test_of_those_that_wait_and_cost_the_same_the_earlier_start_is_first() -> None:
    def later(slug: str, hours: int) -> Facts:
        at = NOW + timedelta(hours=hours)
        held = (Holder("speech", slug, 4, NOW + timedelta(hours=1)), Holder(None, slug, 2))
        return replace(H100, slug=slug, places=(), starts=Interval(at, at, at), holders=held)

    same = Prices({"a": Decimal(1), "b": Decimal(1)}, "EUR")
    found = asked(need(60), later("a", 2), later("b", 1), prices=same)
    assert order(found) == ["b", "a"]
    first = found.ranked[0]
    assert first.start is Start.LATER
    ends = f"{NOW + timedelta(hours=1):%H:%M}"
    assert first.start_words == (
        f"About {ends}. Held by speech 4 (first ends by {ends}), other tenants 2 (no end known)."
    )


def test_whoever_sits_before_it_is_shown_the_earlier_start_before_the_price_in_coarse_steps() -> None:
    def later(which: Facts, minutes: int) -> Facts:
        at = NOW + timedelta(minutes=minutes)
        return replace(which, places=(), starts=Interval(at, at, at))

    for purpose, cheap, dear, first in (
        (Purpose.INTERACTIVE, 300, 50, "h100-1g"),
        (Purpose.INTERACTIVE, 50, 20, "t4"),
        (Purpose.BATCH, 300, 50, "t4"),
    ):
        assert order(asked(need(8, purpose), later(T4, cheap), later(SLICE, dear)))[0] == first
    thrifty = need(8, is_thrifty=True)
    assert order(asked(thrifty, later(T4, 300), later(SLICE, 50)))[0] == "t4"


def test_as_many_slices_fit_on_a_gpu_as_its_memory_has_room_for() -> None:
    wide = replace(SLICE, memory_share=Fraction(1, 4))
    assert [SLICE.slices, wide.slices] == [7, 4]
    found = asked(need(8, at_once=7), T4, wide).comparison
    assert found is not None
    assert found.lines[1].words == "7 slices of 2 GPUs"


def test_isolated_means_one_thing_wherever_it_is_said() -> None:
    words = "No other may reach its memory or take it down with it: MIG or a whole GPU."
    assert words == ISOLATED == TABLE[0].advice
    assert reason(asked(need(8, is_alone=True), SLICED), "a100-ts")[1].endswith(words)


@pytest.mark.parametrize(
    ("wish", "which", "why", "words"),
    [
        (need(20), SLICE, Why.MEMORY, "It has 10 GiB of 20 GiB"),
        (need(20), MPS, Why.MEMORY, "shares of a GPU cannot be put together"),
        (need(8, is_alone=True), SLICED, Why.NOT_ISOLATED, "Nothing isolated"),
        (need(8), SPOT, Why.TAKEN_AWAY, "30 to 120 seconds"),
        (need(8), replace(T4, refused="t4 needs trust level trusted."), Why.NOT_ALLOWED, "trust level"),
        (need(8), replace(T4, reachable=0), Why.NO_QUOTA, "vision has no quota of it."),
        (need(8), replace(T4, capacity=0, places=(), largest=0), Why.NOT_THERE, "The fleet has none"),
        (need(8, at_once=3), replace(T4, capacity=2), Why.NOT_THERE, "It takes 3; the fleet has 2."),
        (
            need(8, at_once=17),
            replace(T4, capacity=2, places=(), largest=0),
            Why.NOT_THERE,
            "It takes 17; the fleet has 2.",
        ),
        (need(8), replace(T4, capacity=0, places=(), largest=0, reachable=0), Why.NOT_THERE, "has none"),
        (need(20), replace(T4, largest=1, reachable=1), Why.TOO_WIDE, "no node has more than 1."),
        (need(20), replace(T4, largest=1, reachable=0), Why.TOO_WIDE, "no node has more than 1."),
        (
            need(8, at_once=17),
            replace(T4, capacity=99),
            Why.TOO_MANY,
            "It takes 17; vision can hold at most 16.",
        ),
    ],
)
def test_what_is_left_out_says_why(wish: Need, which: Facts, why: Why, words: str) -> None:
    found = asked(wish, which)
    assert found.ranked == ()
    assert found.nearest == found.left_out[0]
    assert found.left_out[0].why is why
    assert words in found.left_out[0].words


def test_where_nothing_fits_what_comes_closest_is_what_somebody_could_give() -> None:
    found = asked(need(8, is_alone=True), SLICED, replace(T4, reachable=0), offer("tiny", 4, SharingMode.MIG))
    assert [out.why for out in found.left_out] == [Why.NO_QUOTA, Why.NOT_ISOLATED, Why.MEMORY]
    assert found.nearest is not None
    assert found.nearest.offer.slug == "t4"


def test_spot_is_offered_to_what_may_be_interrupted_and_says_what_to_keep() -> None:
    found = asked(need(60, Purpose.TRAINING, may_be_interrupted=True))
    assert order(found)[0] == "h100-spot"
    assert "Keep checkpoints" in of(found, "h100-spot").speaks_against[0]
    served = asked(need(60, Purpose.SERVING, may_be_interrupted=True))
    assert "drain what is served" in of(served, "h100-spot").speaks_against[0]


def test_it_starts_now_only_where_quota_and_places_are_free_together() -> None:
    two = need(160, Purpose.TRAINING, at_once=2)
    for places, available, start in (
        ((2, 2), 4, Start.NOW),
        ((3, 1), 4, Start.UNKNOWN),
        ((4,), 3, Start.UNKNOWN),
    ):
        found = asked(two, replace(H100, places=places, available=available))
        assert found.ranked[0].start is start, places


def test_nothing_starts_now_while_the_queue_is_held() -> None:
    found = asked(need(8), policies=Policies("vision", "The budget of November is spent."))
    assert {(each.start, each.start_words) for each in found.ranked} == {
        (Start.UNKNOWN, "The budget of November is spent.")
    }


def test_an_offer_without_a_price_is_last_and_says_so() -> None:
    found = asked(need(8), T4, SLICE, prices=Prices({"h100-1g": Decimal("0.42")}, "EUR"))
    assert order(found) == ["h100-1g", "t4"]
    assert (found.ranked[1].total, found.ranked[1].speaks_against) == (
        None,
        ("No price is in force: what it costs is not known.",),
    )


def test_the_price_is_for_all_devices_and_all_of_the_time() -> None:
    first = asked(need(100, seconds=5400, at_once=2), H100).ranked[0]
    assert (first.devices, first.hourly, first.total) == (4, Decimal("11.76"), Decimal("17.64"))


def test_every_row_of_the_table_is_reached_and_the_last_one_is_everybodys() -> None:
    wishes = [
        need(8, is_alone=True), need(8, Purpose.TRAINING), need(60), need(8, Purpose.SERVING),
        need(8, at_once=2), need(8, is_thrifty=True), need(8, Purpose.BATCH), need(8),
    ]  # fmt: skip
    assert [row_of(wish) for wish in wishes] == list(TABLE)
    for row in TABLE:
        assert not set(row.mistakes) & set(row.modes[:1]), row.name


@pytest.mark.parametrize(
    ("billions", "precision", "task", "gigabytes"),
    [
        ("7", Precision.BF16, Task.INFERENCE, "16.8"),
        ("7", Precision.BF16, Task.FULL, "134.4"),
        ("7", Precision.FP32, Task.FULL, "134.4"),
        ("7", Precision.BF16, Task.LORA, "18.144"),
        ("7", Precision.INT4, Task.LORA, "5.544"),
        ("70", Precision.INT4, Task.INFERENCE, "42"),
        ("70", Precision.INT8, Task.INFERENCE, "84"),
    ],
)
def test_a_model_needs_its_weights_what_training_keeps_and_a_fifth(
    billions: str, precision: Precision, task: Task, gigabytes: str
) -> None:
    model = Model(Decimal(billions), precision, task)
    assert model.memory_bytes == int(Decimal(gigabytes) * 10**9)


def test_what_is_rounded_to_8_or_4_bits_is_not_trained_itself() -> None:
    assert [p for p in Precision if not is_trainable(Task.FULL, p)] == [Precision.INT8, Precision.INT4]
    assert all(is_trainable(task, p) for task in (Task.LORA, Task.INFERENCE) for p in Precision)


def test_how_many_devices_one_takes() -> None:
    assert [each_of(need(20), which) for which in (T4, H100, SLICE, SLICED)] == [2, 1, 0, 1]


@pytest.mark.parametrize(
    ("count", "pods", "available", "places", "found"),
    [
        (8, 1, 5, (4, 2), (4, 1)),
        (8, 1, 3, (8,), (3, 1)),
        (2, 1, 9, (1, 1), (1, 1)),
        (2, 1, 9, (), None),
        (1, 1, 9, (9,), None),
        (2, 4, 5, (3, 3), (2, 2)),
        (2, 4, 9, (9,), (2, 3)),
        (2, 4, 8, (2, 1, 1), (2, 1)),
        (4, 2, 8, (3, 3, 3), None),
        (0, 2, 8, (3,), None),
    ],
)
def test_a_smaller_one_is_the_largest_that_starts_now(
    count: int, pods: int, available: int, places: tuple[int, ...], found: tuple[int, int] | None
) -> None:
    assert shrunk(count, pods, available=available, places=places) == found
    if found:
        assert fits(places, *found)
        assert found[0] * found[1] < count * pods


def test_a_smaller_one_in_words() -> None:
    words = [Smaller(n, pods, None).words for n, pods in ((1, None), (2, None), (2, 3))]
    assert words == ["1 device", "2 devices", "3 at once"]


def test_a_job_that_tunes_a_model_is_training_and_one_that_asks_it_is_not() -> None:
    for task, name in ((Task.LORA, "Training"), (Task.FULL, "Training"), (Task.INFERENCE, "Batch work")):
        model = Model(Decimal(1), Precision.BF16, task)
        assert row_of(Need(Purpose.BATCH, model.memory_bytes, model=model)).name == name


def test_training_on_a_large_gpu_is_no_mistake_even_where_a_small_one_would_do() -> None:
    assert of(asked(need(8, Purpose.TRAINING)), "h100").warnings == ()


def test_of_two_that_start_now_and_cost_the_same_the_usual_mode_is_first() -> None:
    assert order(asked(need(8, Purpose.BATCH), SLICE, MPS)) == ["h100-mps", "h100-1g"]


def test_what_is_a_mistake_is_not_called_usual() -> None:
    words = "It is what is usually advised for this."
    found = asked(need(8, at_once=2), T4, H100)
    assert [words in of(found, slug).speaks_for for slug in ("t4", "h100")] == [True, False]


def test_a_slice_is_not_called_dear_because_of_spot() -> None:
    cheap = Prices({**PRICES.hourly, "h100-spot": Decimal("0.10")}, "EUR")
    found = asked(need(8, may_be_interrupted=True), SLICE, SPOT, prices=cheap)
    assert of(found, "h100-1g").speaks_against == ()


def test_nothing_starts_now_whoever_asks_while_something_is_held() -> None:
    assert starts_now(need(8), T4, VISION)
    assert not starts_now(need(8), T4, Policies("vision", "Held."))
