"""What people call their work, and whose it is. Pure, and the same for the same seed.

A name says what somebody is after and never how the work behaves: nobody calls a forgotten notebook one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sandbox.fleet.behaviours import Behaviour
from sandbox.fleet.walk import key_of, unit

_NOTEBOOKS = frozenset(
    {Behaviour.NOTEBOOK, Behaviour.IDLE_HOARDER, Behaviour.KEEPALIVE, Behaviour.ZOMBIE, Behaviour.SLOW_START}
)
_SERVICES = frozenset({Behaviour.INFERENCE, Behaviour.CRASH_LOOP})
_EXPLORING = (
    "explore", "scratch", "ablations", "paper-figs", "error-review", "data-check", "baseline", "debug-loss",
    "attention-maps", "hparam-notes", "demo-prep", "label-audit",
)  # fmt: skip
_SERVING = ("llm-chat", "embed-api", "ocr-serve", "rerank", "caption-api", "search-demo")
_TRAINING = (
    "bert-ft", "llama-lora", "vit-base", "resnet50", "clip-ft", "t5-eval", "diffusion-xl", "gnn-pre",
    "yolo-train", "whisper-ft", "wav2vec", "moe-small", "distil-run", "sweep-lr", "segformer", "rl-ppo",
)  # fmt: skip


class Title(NamedTuple):
    """A name, once in its tenant, and the username of whoever gave it; empty: nobody's in particular."""

    name: str
    person: str


class Titles:
    """Names for one past, given in the order of its submissions."""

    def __init__(self, seed: int, people: Mapping[str, Sequence[str]]) -> None:
        self._seed, self._people = seed, people
        self._given: Counter[tuple[str, str]] = Counter()

    def give(self, tenant: str, behaviour: Behaviour, draw: float) -> Title:
        """RULE: work of one name is one person's; the second is `bert-ft-2`."""
        names = _names(behaviour)
        name = names[int(draw * len(names))]
        count = self._given[tenant, name] = self._given[tenant, name] + 1
        people = self._people.get(tenant, ())
        person = people[int(unit(key_of(self._seed, tenant, name), 0) * len(people))] if people else ""
        return Title(name if count == 1 else f"{name}-{count}", person)


def _names(behaviour: Behaviour) -> Sequence[str]:
    if behaviour in _SERVICES:
        return _SERVING
    return _EXPLORING if behaviour in _NOTEBOOKS else _TRAINING
