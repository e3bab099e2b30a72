"""When counters that read 0 are no word about work: the watts of a whole board contradict them."""

import pytest

from apps.metering.detector.gpu_models import UNLISTED, board_of, is_contradicted, size_of

H100, L4 = board_of("NVIDIA H100 80GB HBM3"), board_of("NVIDIA L4")
ZERO = (0, 0, 0)


@pytest.mark.parametrize(
    ("board", "counters", "smi", "watts"),
    [
        (H100, ZERO, 100, 560.0),
        (H100, ZERO, None, 560.0),
        (H100, (0, None, 0), 40, 300.0),
        (H100, (0, None, None), 100, 300.0),
        (L4, ZERO, 100, 60.0),
    ],
)
def test_full_load_contradicts_counters_of_0(
    board: object, counters: tuple[int | None, ...], smi: int | None, watts: float
) -> None:
    assert is_contradicted(board, counters, smi=smi, watts=watts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("board", "counters", "smi", "watts"),
    [
        (H100, ZERO, 100, 120.0),  # one kernel that does nothing: idle, as it says
        (H100, ZERO, 0, 560.0),  # nvidia-smi agrees; the watts may be those of just before
        (H100, ZERO, 100, None),
        (H100, (1, 0, 0), 100, 560.0),
        (H100, (0, 0, 200_000), 100, 560.0),
        (H100, (None, None, None), 100, 560.0),
        (L4, ZERO, 100, 30.0),  # a small board with its clocks up
        (board_of("of nobody"), ZERO, 100, 560.0),
    ],
)
def test_nothing_else_does(
    board: object, counters: tuple[int | None, ...], smi: int | None, watts: float | None
) -> None:
    assert not is_contradicted(board, counters, smi=smi, watts=watts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "sms"),
    [("NVIDIA H100 80GB HBM3", 132), ("NVIDIA A100-SXM4-40GB", 108), ("NVIDIA A10", 72), ("Tesla T4", 40),
     ("Tesla V100-SXM2-32GB", 80), ("NVIDIA L40S", 142), ("NVIDIA L40", 142), ("NVIDIA L4", 58),
     ("NVIDIA H100 PCIe", 114)],
)  # fmt: skip
def test_a_board_is_known_by_the_name_that_its_driver_gives(model: str, sms: int) -> None:
    assert board_of(model).sms == sms
    assert board_of(model).tdp_w > 0


@pytest.mark.parametrize(
    "model",
    ["NVIDIA A10G", "NVIDIA RTX A1000", "NVIDIA A1000", "NVIDIA T400", "NVIDIA GB200", "NVIDIA A100X",
     "NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA L400", ""],
)  # fmt: skip
def test_a_name_that_only_begins_like_a_boards_is_not_listed(model: str) -> None:
    """RULE: what is not listed switches off what needs it: nothing is judged by another board's watts."""
    assert board_of(model) == UNLISTED
    assert size_of(model, "1g.10gb", 10_000) is None
