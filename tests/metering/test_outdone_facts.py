"""Facts of hardware that were outdone say so, and are read no more: what a GPU is is little of what was."""

from collections.abc import Callable
from importlib import import_module
from random import Random
from typing import Any

import pytest
from django.apps import apps

from apps.metering.allocations.services import gpu_facts
from apps.metering.ledger.rules import segments
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.selectors import facts
from apps.metering.ledger.services import rollup
from apps.metering.models import HardwareFact
from tests.conftest import Cast
from tests.metering.books import AT, BUCKET, Books
from tests.metering.priced_scene import SECOND
from tests.sample import every

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
GPUS = ("GPU-1", "GPU-2", "GPU-3")


@pytest.fixture
def books(cast: Cast) -> Books:
    return Books(cast)


def history(books: Books, rng: Random) -> None:
    """Facts as they come: some late, in the order in which a look appends them."""
    values: dict[ChangeKind, Callable[[], dict[str, Any]]] = {
        ChangeKind.PRESENT: lambda: {"node": "n1", "model": "H100", "denominator": rng.choice((1, 7))},
        ChangeKind.LAYOUT: lambda: {"instances": {f"n1/m{n}": 1 for n in range(rng.randint(1, 4))}},
        ChangeKind.CLAIMS: lambda: {"claims": {}},
    }
    for number in range(60):
        at = AT + (number * 100 - rng.choice((0, 0, 0, 2000))) * SECOND
        for gpu in rng.sample(GPUS, rng.randint(1, 2)):
            kinds = rng.sample(list(ChangeKind), rng.randint(1, 3))
            said = [gpu_facts.Said(kind, values.get(kind, dict)(), at) for kind in kinds]
            gpu_facts._append(books.cluster, {gpu: said}, {}, now=at)


def states(books: Books, at: int) -> dict[str, object]:
    """What is known of each GPU at a moment, by the facts that are read for it."""
    moment = AT + at * SECOND
    known = facts.of_hardware(books.cluster, moment, moment + SECOND / 1000)
    return {
        gpu: vars(segments.current(facts.changes_of(row for row in known if row.gpu == gpu))) for gpu in GPUS
    }


@pytest.mark.parametrize("seed", every(3, range(9)))
def test_what_held_at_any_moment_is_known_without_what_was_outdone_before(books: Books, seed: int) -> None:
    rng = Random(seed)
    history(books, rng)
    moments = [rng.randint(-2500, 6500) for _ in range(30)]
    windows = [(AT + n * BUCKET, AT + (n + rng.randint(1, 9)) * BUCKET) for n in range(0, 20, 3)]
    seen = [facts.compute(books.cluster, GPUS, *window) for window in windows]
    known, now = [states(books, at) for at in moments], gpu_facts._known(books.cluster)
    there = [rollup.there(books.cluster, *window) for window in windows]
    read = HardwareFact.objects.filter(outdone_at=None).count()
    told = [*HardwareFact.objects.order_by("pk").values_list("outdone_at", flat=True)]
    HardwareFact.objects.update(outdone_at=None)
    assert [states(books, at) for at in moments] == known
    assert [facts.compute(books.cluster, GPUS, *window) for window in windows] == seen
    assert [rollup.there(books.cluster, *window) for window in windows] == there
    assert {gpu: vars(state) for gpu, state in gpu_facts._known(books.cluster).items()} == {
        gpu: vars(state) for gpu, state in now.items()
    }
    assert read <= len(GPUS) * len({segments.GROUPS.get(kind, kind) for kind in ChangeKind})
    import_module("apps.metering.migrations.0025_outdone_facts").outdo(apps, None)
    moved = [*HardwareFact.objects.order_by("pk").values_list("outdone_at", flat=True)]
    assert all(mine is None or then is None or then <= mine for then, mine in zip(moved, told, strict=True))
