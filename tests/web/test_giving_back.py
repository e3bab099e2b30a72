"""What a worker gives the machine back after its tasks."""

from pathlib import Path

import pytest

from apps.web.collector import GivingBack


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_memory_that_nothing_uses_goes_back_at_most_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    give_back = GivingBack()
    if not give_back.is_possible:
        pytest.skip("this C library has no malloc_trim: only glibc has")
    now = 1000.0
    monkeypatch.setattr("apps.web.collector.time.monotonic", lambda: now)
    # So small that the C library takes them from its heap, which one that stays keeps from shrinking.
    blocks = [bytes(3000) for _ in range(20_000)]
    stays = blocks[::100]
    del blocks
    full = _resident()

    give_back()
    assert full - _resident() > 30_000_000

    blocks = [bytes(3000) for _ in range(20_000)]
    del blocks
    full = _resident()
    now += GivingBack.SECONDS - 1
    give_back()
    assert full - _resident() < 1_000_000
    now += 1
    give_back()
    assert full - _resident() > 30_000_000
    assert len(stays) == 200
