"""How long an operator's commands take on a database of this size: a backup, its restore, another secret key.

The commands are those of docs/operating.md, each a process of its own. Then every table is compared with what
it was: how many rows, and a digest over all of them.
"""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.rig import ROOT

Line = dict[str, object]
TENANTS, WORKLOADS, EVENTS, SECRETS, CLUSTERS = 40, 10_000, 100_000, 1_000, 4
BEGINS = datetime(2026, 6, 1, tzinfo=UTC)
AT_ONCE = 2000
OTHERWISE = 50
"""Of so many workloads one has nothing in the cluster, and one runs that is stopped."""
_ROWS = """
    SELECT count(*), coalesce(md5(string_agg(h, '' ORDER BY h)), '') FROM (SELECT md5(t::text) h FROM {} t) r
"""


def times(folder: Path, scale: float = 1.0) -> Iterator[Line]:
    """A line for each command, then the differences: none is the goal, and 15 minutes for the restore."""
    held = fill(scale)
    url, dump = os.environ["ALLOTMENT_DATABASE_URL"], folder / "allotment.dump"
    yield from _timed("pg_dump", ["pg_dump", "--format=custom", "--file", str(dump), url])
    before = tables()
    restored = 0.0
    for what, command in _restore(url, dump):
        for line in _timed(what, command):
            restored += float(str(line["seconds"]))
            yield line
        if what == "pg_restore":
            after = tables()
    differ = [name for name in before if before[name] != after.get(name)]
    yield {
        "what": "restore: tables that differ from the backup's",
        "goal": 0,
        "tables": len(before),
        "ratio": len(differ),
        "seconds": round(restored, 1),
        "dump_megabytes": round(dump.stat().st_size / 1e6, 1),
        **held,
    }
    yield from _reviewed()
    yield from _rotation()


def _reviewed() -> Iterator[Line]:
    """What comes once the watchers have listed: the clusters are compared, rows decided about, all let go."""
    from django.utils import timezone

    from apps.cluster.models import Cluster, WatchPosition
    from apps.cluster.objects.kinds import WATCHED

    now = timezone.now()
    WatchPosition.objects.bulk_create(
        WatchPosition(cluster=cluster, kind=kind, listed_at=now)
        for cluster in Cluster.objects.all()
        for kind in WATCHED
    )
    for options in (["review"], ["review", "--stop-missing", "--resume-running"], ["finish", "--as-listed"]):
        words = " ".join(["restore", *options])
        yield from _timed(words, [sys.executable, "manage.py", "restore", *options])


def _restore(url: str, dump: Path) -> list[tuple[str, Sequence[str]]]:
    server, name = url.rsplit("/", 1)
    rename = f"ALTER DATABASE {name} RENAME TO {name}_before"
    manage = [sys.executable, "manage.py"]
    return [
        ("psql: the old one aside", ["psql", "--quiet", f"{server}/postgres", "--command", rename]),
        ("createdb", ["createdb", "--maintenance-db", f"{server}/postgres", name]),
        ("pg_restore", ["pg_restore", "--single-transaction", "--dbname", url, str(dump)]),
        ("migrate", [*manage, "migrate", "--verbosity", "0"]),
        ("restore begin", [*manage, "restore", "begin"]),
        ("verify_audit", [*manage, "verify_audit"]),
    ]


def _rotation() -> Iterator[Line]:
    """Everything is opened by the new key alone afterwards: without the old one nothing is left to seal."""
    old, new = os.environ.get("ALLOTMENT_SECRET_KEY", ""), secrets.token_hex(32)
    command = [sys.executable, "manage.py", "rotate_secret_key"]
    with_both = {"ALLOTMENT_SECRET_KEY": new, "ALLOTMENT_OLD_SECRET_KEYS": old or _development_key()}
    yield from _timed("rotate_secret_key", command, with_both)
    yield from _timed("the same with the new key alone", command, {"ALLOTMENT_SECRET_KEY": new})


def _development_key() -> str:
    from portal.config import DEVELOPMENT_KEY

    return DEVELOPMENT_KEY


def _timed(what: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[Line]:
    from django.db import connections

    connections.close_all()
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    took = round(time.monotonic() - began, 1)
    if done.returncode:
        raise RuntimeError(f"{what} ended with {done.returncode}: {done.stdout}{done.stderr}")
    said = done.stdout.strip().splitlines()
    yield {"round": what, "seconds": took, "said": said[0] if said else "", "lines": len(said)}


def tables() -> dict[str, tuple[int, str]]:
    """Of each table how many rows it has, and a digest over them in an order of their own."""
    from django.db import connection

    with connection.cursor() as cursor:
        found = {}
        for name in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(_ROWS.format(connection.ops.quote_name(name)))
            found[name] = cursor.fetchone()
    return found


def fill(scale: float) -> Line:
    """Tenants, workloads with objects and secrets, and a whole audit record; how much of each there is."""
    from apps.cluster.models import MirrorObject
    from apps.workloads.models import Workload, WorkloadSecret
    from tests import factories

    clusters = [_cluster(number) for number in range(CLUSTERS)]
    offer = factories.make_offer(factories.make_flavor(clusters[0]))
    department = factories.make_department(clusters[0], "research")
    tenants = [factories.make_tenant(department, f"team-{number}") for number in range(TENANTS)]
    people = [factories.make_user(f"person-{number}") for number in range(TENANTS)]
    works = [
        _workload(number, tenants[number % TENANTS], people[number % TENANTS], offer)
        for number in range(int(WORKLOADS * scale))
    ]
    for number, row in enumerate(works):
        row.suspended = number % OTHERWISE == 1
    Workload.objects.bulk_create(works, AT_ONCE)
    there = [row for number, row in enumerate(works) if number % OTHERWISE]
    MirrorObject.objects.bulk_create((each for row in there for each in _seen(row)), AT_ONCE)
    sealed = [_secret(row) for row in works[: int(SECRETS * scale)]]
    WorkloadSecret.objects.bulk_create(sealed, AT_ONCE)
    events = sum(_audited(tenant, int(EVENTS * scale) // TENANTS) for tenant in tenants)
    return {"workloads": len(works), "sealed": len(sealed) + CLUSTERS, "events": events, "tenants": TENANTS}


def _cluster(number: int) -> Any:
    from apps import sealing
    from tests import factories

    made = factories.make_cluster(f"cluster-{number}")
    made.kubeconfig_sealed = sealing.seal("apiVersion: v1\n" * 200)
    made.save()
    return made


def _workload(number: int, tenant: Any, owner: Any, offer: Any) -> Any:
    from apps.cluster.objects import names
    from apps.workloads.models import Workload
    from apps.workloads.specs import Kind
    from tests import factories

    key, slug = uuid4(), f"work-{number}"
    return Workload(
        id=key, cluster=tenant.cluster, tenant=tenant, owner=owner, slug=slug, name=slug, kind=Kind.NOTEBOOK,
        offer=offer, spec=factories.notebook_body(offer.slug), object_name=names.object_name(slug, key),
    )  # fmt: skip


def _seen(row: Any) -> Iterator[Any]:
    """Its objects as the watcher keeps them."""
    from apps.cluster.models import MirrorObject
    from apps.workloads import registry

    for kind in (registry.of(row.kind).controller, "PersistentVolumeClaim"):
        yield MirrorObject(
            cluster=row.cluster, kind=kind, namespace=row.tenant.object_name, name=row.object_name,
            uid=str(uuid4()), owner_kind="workload", owner_id=str(row.pk), is_managed=True,
            body={"kind": kind, "spec": {"text": "x" * 1000}},
        )  # fmt: skip


def _secret(row: Any) -> Any:
    from apps import sealing
    from apps.workloads.models import WorkloadSecret

    text = sealing.seal(secrets.token_hex(32), sealing.SECRET)
    return WorkloadSecret(workload=row, name="KEY", into="env", sealed=text, set_by="person", set_at=BEGINS)


def _audited(tenant: Any, count: int) -> int:
    """A whole chain: each event hashes the one before it."""
    from apps.audit.chain import Link, seal
    from apps.audit.models import AuditEvent, ChainHead

    chain, before, events = f"tenant:{tenant.slug}", "", []
    for sequence in range(1, count + 1):
        link = Link(
            chain=chain, sequence=sequence, at=BEGINS + timedelta(minutes=sequence), actor="person", token="",
            action="workload.update", target_kind="workload", target_id=str(tenant.pk), target_name="work",
            request_id=str(uuid4()), reason="", changes={"cpu": ["1", "2"]},
        )  # fmt: skip
        digest = seal(link, before)
        events.append(AuditEvent(**link.__dict__, previous_hash=before, hash=digest))
        before = digest
    AuditEvent.objects.bulk_create(events, AT_ONCE)
    ChainHead.objects.update_or_create(chain=chain, defaults={"sequence": count, "hash": before})
    return count
