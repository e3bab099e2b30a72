"""Whether somebody types in a shell, as far as the door has noted it. Pure."""

from datetime import UTC, datetime, timedelta

RECENT = timedelta(minutes=15)
"""As long as an IDE's word counts (`ide_activity.BELIEVED`)."""
IN_USE = "a shell is in use"


def is_in_use(used_at: datetime | None, started_at: datetime | None, now: datetime) -> bool:
    """Whether somebody typed in a shell of the present run, which began at `started_at`, within `RECENT`.

    RULE: typing counts, and each command that `ssh` runs. An open connection does not: a forgotten one, and
    what a program keeps alive by itself, look the same.
    """
    if used_at is None or started_at is None:
        return False
    return started_at <= used_at and now - used_at <= RECENT


def words(used_at: datetime | None, started_at: datetime | None, now: datetime) -> str:
    """As `A shell is in use, last at 14:10 UTC.`; "" where none is."""
    if used_at is None or not is_in_use(used_at, started_at, now):
        return ""
    return f"{IN_USE[0].upper()}{IN_USE[1:]}, last at {used_at.astimezone(UTC):%H:%M} UTC."
