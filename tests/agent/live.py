"""The whole agent over the stand-in, in real time: `python -m tests.agent.live GPUS [options]`."""

import sys
import time
from typing import Any

from agent.__main__ import main
from tests.agent.cards import DRAM, SM, TENSOR, Card, Library, Part
from tests.agent.standin import installed


class RealTime(Library):
    """Its clock is the machine's."""

    def __init__(self, cards: list[Card]) -> None:
        super().__init__(cards)
        self._last = time.monotonic()

    def find(self, handle: Any) -> tuple[Card, Part | None]:
        now = time.monotonic()
        if now - self._last > 0.01:
            self.advance(now - self._last)
            self._last = now
        return super().find(handle)


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-0000-0000-0000-{number:012x}"


def cards(count: int) -> list[Card]:
    """GPUs at half load, each with two processes."""
    rates = {SM: 50.0, TENSOR: 25.0, DRAM: 30.0}
    return [
        Card(uuid(n), n, smi=100, rates=dict(rates), processes=[(100 + n, 900), (200 + n, 50)])
        for n in range(count)
    ]


if __name__ == "__main__":
    with installed(RealTime(cards(int(sys.argv[1])))):
        sys.exit(main(sys.argv[2:]))
