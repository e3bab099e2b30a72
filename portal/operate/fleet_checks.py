"""Whether clusters, telemetry and the books are as they should be, as the database has it now."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.apps import apps
from django.conf import settings
from django.db.models import Max

from apps.accounts.models import User
from apps.accounts.specs import PlatformRole
from apps.audit import services as audit
from apps.cluster.models import Cluster, Reconciled
from apps.cluster.reconciling.services.sweep import ROWS, backlog
from apps.cluster.watching.services.capabilities import NEEDED
from apps.metering.ledger.services import verifying
from apps.metering.models import CollectorPosition, RollPosition
from apps.metering.telemetry.services import polling
from apps.web import self_checks
from portal.operate.findings import OK, Finding, note, ok, wrong

MOST_SILENT = timedelta(seconds=30)
MOST_UNROLLED = timedelta(minutes=30)
LATE_STEPS = 6
MOST_BACKLOG = 1000
BROKEN = "Run `manage.py verify_audit`, keep a copy of the database, and ask who could write to it"
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def people() -> Iterator[Finding]:
    """Whether somebody can run the installation."""
    rows = User.objects.filter(platform_role=PlatformRole.PLATFORM, is_active=True, is_service=False)
    count = rows.count()
    if not count:
        yield wrong("engineers", "nobody is a platform engineer", "Run `manage.py bootstrap`")
    elif count == 1:
        cure = "Invite a second (Console, Users): some acts need two people"
        yield note("engineers", "one platform engineer", cure)
    else:
        yield ok("engineers", f"{count} platform engineers")


def clusters(now: datetime, *, whole: bool = True) -> Iterator[Finding]:
    """Watched, complete, their telemetry read, their ledger rolled up and balanced."""
    rows = list(Cluster.objects.order_by("slug"))
    if not rows:
        yield wrong("clusters", "none is registered", "Run `manage.py bootstrap --kubeconfig FILE`")
    for cluster in rows:
        yield _watched(cluster, now)
        if cluster.held_since is not None:
            seen = "nothing is written to it: a backup was loaded"
            yield note(
                f"hold of {cluster.slug}", seen, "Run `manage.py restore review`, then `restore finish`"
            )
        yield from _complete(cluster)
        yield _telemetry(cluster, now)
        rolled = _rolled(cluster, now)
        yield rolled
        if rolled.state == OK:
            yield _balanced(cluster, now, whole=whole)


def _watched(cluster: Cluster, now: datetime) -> Finding:
    name, seen_at = f"watch of {cluster.slug}", cluster.last_seen_at
    if seen_at is None:
        cure = "See the watcher's log, and whether the workers reach the cluster"
        return wrong(name, "it has never answered", cure, told=cluster.message)
    age = (now - seen_at).total_seconds()
    if age > MOST_SILENT.total_seconds() or cluster.phase != Cluster.Phase.READY:
        cure = "See the cluster, the credential it is registered with, and the watcher's log"
        return wrong(name, f"last answered {age:.0f} s ago", cure, told=cluster.message)
    return ok(name, f"answered {max(age, 0):.0f} s ago")


def _complete(cluster: Cluster) -> Iterator[Finding]:
    lacking = [each for each in cluster.capabilities if not each["available"]]
    for each in lacking:
        name = f"{each['name']} of {cluster.slug}"
        missing = ", ".join(each.get("missing") or ()) or "not there"
        if each["name"] in NEEDED:
            yield wrong(name, f"missing: {missing}", "Run `kubectl apply -k k8s`", told=each["message"])
        elif each["name"] == "policies" and not cluster.is_simulated:
            yield note(name, "admission policies are not enforced", "Run `kubectl apply -k k8s`")
    if not {each["name"] for each in lacking} & NEEDED and cluster.capabilities:
        yield ok(f"pieces of {cluster.slug}", "all that work needs is there")


def _telemetry(cluster: Cluster, now: datetime) -> Finding:
    name, kind = f"telemetry of {cluster.slug}", polling.source_of(cluster)
    if kind is None:
        return note(name, "no source is set: all use is unknown", "Set ALLOTMENT_TELEMETRY_SOURCE and _URL")
    rows = CollectorPosition.objects.filter(cluster=cluster, source=kind)
    until = rows.aggregate(until=Max("until"))["until"] or NEVER
    late = timedelta(seconds=LATE_STEPS * settings.CONFIG.telemetry_step_seconds)
    if now - until > late:
        seen = f"last read up to {until:%Y-%m-%d %H:%M:%S} UTC" if until != NEVER else "never read"
        return wrong(name, seen, "See Console, Telemetry: it names what is wrong with the source")
    return ok(name, f"read up to {(now - until).total_seconds():.0f} s ago")


def _rolled(cluster: Cluster, now: datetime) -> Finding:
    name = f"ledger of {cluster.slug}"
    position = RollPosition.objects.filter(cluster=cluster).first()
    if position is None:
        return note(name, "nothing is rolled up yet", "It begins with the first GPU that is seen")
    if now - position.until > MOST_UNROLLED:
        cure = "See the workers' logs for metering.roll"
        return wrong(name, f"rolled up to {position.until:%Y-%m-%d %H:%M} UTC only", cure)
    return ok(name, f"rolled up to {position.until:%Y-%m-%d %H:%M} UTC")


def _balanced(cluster: Cluster, now: datetime, *, whole: bool) -> Finding:
    name = f"balance of {cluster.slug}"
    if not whole:
        cure = "Run `manage.py verify_ledger`; it names each"
        return _last_check(name, f"{self_checks.LEDGER}{cluster.slug}", cure, now)
    flaws = len(verifying.verify_yesterday(cluster, now=now).flaws)
    if flaws:
        return wrong(name, f"{flaws} breaches yesterday", "Run `manage.py verify_ledger`; it names each")
    return ok(name, "yesterday balances")


def books(now: datetime, *, whole: bool = True) -> Iterator[Finding]:
    """The audit record, and what waits for a reconcile."""
    yield _chains() if whole else _last_check("audit record", self_checks.AUDIT, BROKEN, now)
    waiting = {owner: backlog(_model(label), now, MOST_BACKLOG) for owner, label in ROWS.items()}
    seen = ", ".join(f"{count} {owner}" for owner, count in waiting.items() if count) or "nothing waits"
    if max(waiting.values()) >= MOST_BACKLOG:
        yield wrong("sweep", f"{seen} wait for a reconcile", "Start more workers, or see why they are slow")
    else:
        yield ok("sweep", seen)


def _chains() -> Finding:
    verdict = audit.verify()
    if verdict.breaches:
        chains = ", ".join(sorted({each.chain for each in verdict.breaches}))
        return wrong("audit record", f"{len(verdict.breaches)} breaches in {chains}", BROKEN)
    return ok("audit record", f"{verdict.links} events in {verdict.chains} chains are whole")


def _last_check(name: str, check: str, cure: str, now: datetime) -> Finding:
    """What workers found when they last checked it, which they do every `self_checks.EVERY`."""
    last = self_checks.last_of(check)
    if last is None:
        cure = "Workers check it within minutes of their start: see that they run"
        return note(f"check of {name}", "not made yet", cure)
    seen = f"checked {last.checked_at:%Y-%m-%d %H:%M} UTC"
    if last.breaches:
        return wrong(name, f"{last.breaches} breaches, {seen}", cure)
    if now - last.checked_at > 2 * self_checks.EVERY:
        return wrong(f"check of {name}", f"{seen}, and not since", "See that workers run, and their logs")
    return ok(name, f"whole, {seen}")


def _model(label: str) -> type[Reconciled]:
    model: type[Reconciled] = apps.get_model(label)
    return model
