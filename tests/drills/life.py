"""A workload's life, the same each time, so that a troubled one can be held against an undisturbed one."""

from collections.abc import Callable

from apps.workloads.models import Workload
from apps.workloads.secret_specs import Into, SecretWish
from tests.drills.crash import Crasher, CrashingWorld
from tests.drills.dump import Dump, dump, duplicates, volumes
from tests.drills.world import Ask

SECRETS = (SecretWish("TOKEN", Into.ENV, "a value"), SecretWish("netrc", Into.FILE, "another"))
"""What a job has; a notebook has a Secret in any case."""
VERBS = ("provision", "stop", "resume", "delete")


class Life:
    """One workload from its request to its end, each verb with one trouble in it."""

    def __init__(self, world: CrashingWorld, kind: str, number: int) -> None:
        self.world, self.kind, self.number = world, kind, number
        self.row: Workload | None = None
        self.kept: list[str] = []

    def live(self, crashers: dict[str, Crasher]) -> dict[str, tuple[Crasher, Dump]]:
        """Every verb, each with its own trouble."""
        return {verb: self._do(verb, crashers.get(verb, Crasher())) for verb in VERBS}

    def _do(self, verb: str, crasher: Crasher) -> tuple[Crasher, Dump]:
        self.world.under(crasher, self._act(verb))
        assert self.row
        assert duplicates(self.world) == []
        present = volumes(self.world, self.row)
        self.kept = self.kept or present
        assert present == ([] if verb == "delete" else self.kept), "its data was lost"
        return crasher, dump(self.world, self.row)

    def _act(self, verb: str) -> Callable[[], None]:
        def provision() -> None:
            slug, secrets = f"{self.kind}-{self.number:03d}", SECRETS if self.kind == "job" else ()
            self.row = self.world.submit(Ask(slug, kind=self.kind, secrets=secrets))

        def other() -> None:
            assert self.row
            self.world.act(verb, self.row)

        return provision if verb == "provision" else other
