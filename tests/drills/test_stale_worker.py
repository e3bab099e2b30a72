"""A worker that slept past its lease, or whose clock is wrong, changes nothing that lasts."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.cluster.reconciling.services import lease, sweep
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.drills.door import Write, nothing
from tests.drills.dump import Dump, difference, dump, duplicates, orphans
from tests.drills.world import Ask, World
from tests.patience import patient

OFF = (timedelta(minutes=10), timedelta(minutes=-10), timedelta(hours=-1))
LIVES: dict[str, tuple[str, ...]] = {
    "provision, then stop": ("stop",),
    "provision, then delete": ("delete",),
    "provision, then stop and resume": ("stop", "resume"),
}


class Sleeper:
    """A worker that is paused before one of its calls. Meanwhile its lease ends, people act, others work."""

    def __init__(self, world: World, row: Workload, point: str, verbs: tuple[str, ...]) -> None:
        self.world, self.row, self.point, self.verbs = world, row, point, verbs
        self.slept = False
        self.meanwhile: list[object] = []

    def run(self) -> None:
        self.world.gateway.forget()
        self.world.gateway.before = self._sleep
        self.world.hints.clear()
        self.world.reconcile("workload", self.row.pk)
        assert self.meanwhile == ([self._columns()] if self.slept else []), "it wrote past its lease"
        self.world.gateway.before = nothing

    def _columns(self) -> object:
        ours = (
            "fence",
            "lease_owner",
            "observed_generation",
            "phase",
            "conditions",
            "deleted_at",
            "placement",
        )
        return Workload.objects.filter(pk=self.row.pk).values(*ours).get()

    def _sleep(self, write: Write) -> None:
        if write.point != self.point or self.slept:
            return
        self.slept = True
        self.world.lease_ends()
        for verb in self.verbs:
            self.world.act(verb, self.row)
            self.world.settle()
        self.meanwhile.append(self._columns())


def undisturbed(world: World, verbs: tuple[str, ...]) -> Dump:
    row = world.submit(Ask("plain"))
    world.settle()
    for verb in verbs:
        world.act(verb, row)
        world.settle()
    return ended(world, row)


def ended(world: World, row: Workload) -> Dump:
    """The end, without story and times: those run differently, and end alike."""
    found = dump(world, row)
    del found["row"]["story"], found["row"]["times"]
    if row.deleting_at is None:
        world.act("delete", row)
        world.settle()
    return found


@pytest.mark.parametrize("verbs", LIVES.values(), ids=LIVES.keys())
def test_what_a_sleeper_does_late_is_undone(world: World, one_thread: None, verbs: tuple[str, ...]) -> None:
    reference = undisturbed(world, verbs)
    points = [f"apply {kind} 1" for kind in ("PersistentVolumeClaim", "Pod", "Secret")]
    wrong: list[str] = []
    for number, point in enumerate(points):
        row = world.submit(Ask(f"late-{number}"))
        sleeper = Sleeper(world, row, point, verbs)
        sleeper.run()
        assert sleeper.slept
        world.settle()
        assert duplicates(world) == []
        wrong += [f"{point}: {line}" for line in difference(ended(world, row), reference)]
    assert not wrong, "\n".join(wrong)
    assert orphans(world) == []


@pytest.mark.parametrize("off", OFF, ids=str)
def test_a_wrong_clock_gives_no_second_lease(
    world: World, monkeypatch: pytest.MonkeyPatch, off: timedelta
) -> None:
    row = world.submit(Ask("nb"))
    held = lease.claim(Workload, row.pk, owner="right", seconds=30)
    assert held is not None
    real: Callable[[], object] = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + off)  # type: ignore[operator]

    world.hints.clear()
    sweep.hint_due(Workload, "workload", timezone.now())
    world.work()

    assert lease.claim(Workload, row.pk, owner="wrong", seconds=30) is None
    assert world.gateway.writes == []
    assert held.release()


@pytest.mark.parametrize("off", OFF, ids=str)
def test_a_lease_given_by_a_wrong_clock_is_as_long_as_any(
    world: World, monkeypatch: pytest.MonkeyPatch, off: timedelta
) -> None:
    row, real = world.submit(Ask("nb")), timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: real + off)
    assert lease.claim(Workload, row.pk, owner="wrong", seconds=30)
    monkeypatch.undo()
    row.refresh_from_db()
    assert row.lease_until is not None
    assert timedelta(seconds=30 - patient(5)) < row.lease_until - timezone.now() <= timedelta(seconds=31)


def test_two_clocks_that_sweep_do_nothing_twice(world: World) -> None:
    row = world.submit(Ask("nb"))
    world.hints.clear()
    for _ in range(8):
        world.manager.advance(3)
        world.watch.deliver()
        world.hints.clear()
        first, second = world.sweep(later=timedelta(minutes=1)), world.sweep(later=timedelta(minutes=1))
        assert first == second
        for owner, pk in list(world.hints):
            world.reconcile(owner, pk)
    assert world.phase(row) == Phase.RUNNING
    points = sorted(write.point for write in world.gateway.writes)  # in one level, so in any order
    assert points == [f"apply {kind} 1" for kind in ("PersistentVolumeClaim", "Pod", "Secret")]
    assert dump(world, row)["row"]["story"] == ["Accepted", "Running"]
