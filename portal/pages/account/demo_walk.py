"""Where a newcomer to the simulated demo may begin: the steps of the first five minutes, in their order."""

from typing import NamedTuple


class Step(NamedTuple):
    """What one of the demo's people does, and the page on which it begins."""

    username: str
    name: str
    url: str
    words: str


STEPS = (
    Step("researcher", "Rosa", "/t/vision/new/", "asks for a notebook and opens it"),
    Step("researcher", "Rosa", "/t/vision/workloads/", "sees why sweep-8 waits, and who holds its GPUs"),
    Step("lead", "Leon", "/t/vision/quota/#ask", "asks for 4 more H100, beside what his team wastes"),
    Step("platform", "Petra", "/console/", "sees what is wasted today, and by whom"),
    Step(
        "platform", "Petra", "/console/requests/", "decides by the evidence, stops asr-tune, and sweep-8 runs"
    ),
)
