"""Somebody in a workload's container: as which account, until when, and what they do there as evidence."""

import time
from typing import Self

from django.utils import timezone

from apps.tenants.live.services.stream_guard import Guard, Thing
from apps.workloads.opening.selectors import shell_access
from apps.workloads.opening.services import shells
from portal.door.asking import in_thread, note

NOTED_SECONDS = 60.0


class Visit:
    """From coming in to the end of the right, which `over` awaits."""

    def __init__(self, inside: shells.Inside, place: int) -> None:
        self._inside, self._place = inside, place
        self._account: shells.Account | None = None
        self._noted_at = float("-inf")
        key = inside.key
        self._guard = Guard(
            inside.credential,
            lambda actor: shell_access.right(actor, inside.row.pk, key),
            Thing(shell_access.standings, (inside.row.pk, key)),
            lambda _: inside.actor(),
        )

    @classmethod
    async def begun(cls, inside: shells.Inside, place: int = 0) -> Self:
        """In the pod of that place; raises as `shell_access.right` once that would be refused."""
        return await in_thread(cls, inside, place)

    async def account(self) -> shells.Account:
        """The person's account there, a new one where the last one's time is over; raises as `account_in`."""
        if self._account is None or not self._account.lasts(timezone.now()):
            self._account = await in_thread(shells.account_in, self._inside, self._place)
        return self._account

    async def over(self) -> None:
        """Until the right ends."""
        await self._guard.over()

    def note_use(self) -> None:
        """They do something; written down at most once a minute."""
        now = time.monotonic()
        if now - self._noted_at >= NOTED_SECONDS:
            self._noted_at = now
            note(shells.note_use, self._inside.row.pk, timezone.now())
