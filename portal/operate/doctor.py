"""All checks of an installation, one after the other. One that fails itself is a finding, never an end."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from django.conf import settings
from django.db import DatabaseError

from portal.operate import certificates, fleet_checks, rotation, service_checks, settings_checks
from portal.operate.findings import WRONG, Finding, wrong
from portal.operate.tracing import check as tracing

Check = Callable[[], Iterable[Finding]]


def examine(now: datetime, *, whole: bool = True) -> Iterator[Finding]:
    """Every finding, in the order in which one would mend them. What takes long where there is much (audit
    record, the ledger's days) is checked anew if `whole`, else told as workers last found it; sealed texts
    are opened, servers asked for their certificates and a collector of traces asked, if `whole` alone.
    """
    config = settings.CONFIG
    yield from _guarded("settings", lambda: settings_checks.check(config))
    stored = list(_guarded("database", service_checks.database))
    yield from stored
    if is_well(stored):
        yield from _guarded("database disk", lambda: service_checks.room(whole=whole))
    yield from _guarded("redis", lambda: service_checks.redis(config))
    yield from _guarded("processes", lambda: service_checks.processes(config))
    yield from _guarded("disk", service_checks.disk)
    if whole:
        yield from _guarded("tracing", tracing.check)
    if is_well(stored):
        if whole:
            yield from _guarded("sealed texts", rotation.check)
        yield from _guarded("engineers", fleet_checks.people)
        yield from _guarded("clusters", lambda: fleet_checks.clusters(now, whole=whole))
        yield from _guarded("certificates", lambda: certificates.check(config, now, whole=whole))
        yield from _guarded("books", lambda: fleet_checks.books(now, whole=whole))


def is_well(found: Iterable[Finding]) -> bool:
    """Whether nothing of it is wrong."""
    return all(each.state != WRONG for each in found)


def _guarded(name: str, check: Check) -> Iterator[Finding]:
    try:
        yield from check()
    except DatabaseError as error:
        yield wrong(name, "the database failed meanwhile", "Ask again", told=type(error).__name__)
    except Exception as error:  # noqa: BLE001 - the doctor tells of what it cannot examine, and goes on
        cure = "Report this: it is a mistake in the product"
        yield wrong(name, "it could not be examined", cure, told=f"{type(error).__name__}: {error}")
