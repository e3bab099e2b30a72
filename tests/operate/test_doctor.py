"""`manage.py doctor`: a well installation is told as such, what breaks by its name and cure."""

import json
import tarfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import redis
from django.apps import apps
from django.core.management import call_command
from django.db import connection, models
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import Authenticator, Passkey, User
from apps.accounts.specs import system_actor
from apps.audit import services as audit
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster
from apps.cluster.reconciling.services import wake
from apps.metering.models import RollPosition
from apps.tenants.models import Tenant
from apps.web.stores import telling
from apps.web.stores.telling import Teller
from apps.workloads.models import Workload
from portal.config import Config
from portal.operate import bundle, doctor, fleet_checks, queues, service_checks, settings_checks
from portal.operate.findings import NOTE, OK, WRONG
from portal.operate.versions import VERSION
from tests.conftest import Cast
from tests.factories import make_workload
from tests.operate.conftest import PIECES
from tests.patience import patient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ROOT = Path(__file__).resolve().parents[2]
CANARY = "c4n4ry"


def told() -> dict[str, tuple[str, str]]:
    """State and words of each check by its name."""
    return {each.name: (each.state, each.line) for each in doctor.examine(timezone.now())}


def run(*words: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("doctor", *words, stdout=out, stderr=StringIO())
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


@pytest.mark.usefixtures("well")
def test_a_well_installation_is_told_as_such_and_ends_with_0() -> None:
    code, lines = run()
    assert code == 0, lines
    assert WRONG not in {line.split()[0] for line in lines.splitlines()}
    assert lines.splitlines()[-1].endswith(" worth knowing.")
    code, document = run("--json")
    body = json.loads(document)
    assert (code, body["well"]) == (0, True)
    assert {each["state"] for each in body["checks"]} == {OK, NOTE}
    names = {each["name"] for each in body["checks"]}
    assert {
        "database",
        "migrations",
        "clock",
        "redis",
        "redis policy",
        "audit record",
        "watch of north",
    } <= names


def nobody() -> None:
    User.objects.update(platform_role="")


def silent() -> None:
    Cluster.objects.update(last_seen_at=timezone.now() - timedelta(minutes=2), message="dial tcp: refused")


def incomplete() -> None:
    piece = {"name": "kueue", "available": False, "version": None, "message": "Kueue!", "missing": ["Cohort"]}
    Cluster.objects.update(capabilities=[piece])


def unmigrated() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'metering'")


def no_worker() -> None:
    names = [key for key in telling.client().scan_iter() if key.startswith(f"{telling.PARTS}:worker:")]
    telling.client().delete(*names)


def no_clock() -> None:
    for kind in ("beat", "worker"):
        Teller(kind, since=time.time() - 600).tell()
    telling.client().hset(telling.RAN, service_checks.CLOCKED, 1000)


def tampered() -> None:
    now = timezone.now()
    audit.record(system_actor("test"), "cluster.update", Cluster.objects.get(), now=now)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE audit_auditevent SET actor = 'somebody else'")


def unrolled() -> None:
    now = timezone.now()
    RollPosition.objects.create(cluster=Cluster.objects.get(), since=now - timedelta(days=1),
                                until=now - timedelta(hours=2))  # fmt: skip


def waiting() -> None:
    old = {"headers": {"allotment_sent_at": 1000.0}}
    telling.client().rpush("celery", json.dumps(old))


def evicting() -> None:
    telling.client().config_set("maxmemory", "100mb")
    telling.client().config_set("maxmemory-policy", "allkeys-lru")


@pytest.mark.usefixtures("well")
@pytest.mark.parametrize(
    ("breaks", "name", "words"),
    [
        (nobody, "engineers", "bootstrap"),
        (silent, "watch of north", "dial tcp: refused. See the cluster"),
        (incomplete, "kueue of north", "missing: Cohort. Kueue!. Run `kubectl apply -k k8s`"),
        (unmigrated, "migrations", "Run `manage.py migrate`"),
        (no_worker, "worker", "python -m portal.run.worker"),
        (no_clock, "clock's work", "has not run for 60 s"),
        (tampered, "audit record", "1 breaches in platform. Run `manage.py verify_audit`"),
        (unrolled, "ledger of north", "metering.roll"),
        (waiting, "queue urgent", "1 wait, the oldest for"),
        (evicting, "redis policy", "noeviction"),
    ],
)
def test_what_is_broken_is_named_with_what_to_do(breaks: Callable[[], None], name: str, words: str) -> None:
    assert told().get(name, (OK, ""))[0] != WRONG
    breaks()
    try:
        found, code = told(), run()[0]
    finally:
        telling.client().config_set("maxmemory", "0")
        telling.client().config_set("maxmemory-policy", "noeviction")
    assert {key for key, (state, _) in found.items() if state == WRONG} == {name}
    assert words in found[name][1]
    assert code == 1


@pytest.mark.usefixtures("well")
@pytest.mark.parametrize("kind", ["beat", "worker"])
def test_a_clock_that_has_just_begun_is_no_fault(kind: str) -> None:
    """As right after an installation, when the guide asks the doctor, and after an upgrade."""
    no_clock()
    Teller(kind, runs_told=dict(telling._ran)).tell()
    state, words = told()["clock's work"]
    assert (state, run()[0]) == (NOTE, 0)
    assert "s since beat and worker began. Ask again in a minute" in words


@pytest.mark.usefixtures("well")
def test_a_sweep_that_does_not_keep_up_is_told(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    make_workload(cast.vision, cast.rosa, cast.offer)
    assert "1 workload" in told()["sweep"][1]
    monkeypatch.setattr(fleet_checks, "MOST_BACKLOG", 1)
    assert told()["sweep"][0] == WRONG


def test_without_redis_all_else_is_examined(cast: Cast, no_broker: None) -> None:
    found = told()
    assert (found["redis"][0], found["processes"][0], found["audit record"][0]) == (WRONG, WRONG, OK)


def test_a_check_that_fails_itself_is_a_finding(
    cast: Cast, no_broker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> Iterator[Any]:
        raise RuntimeError("of the test")

    monkeypatch.setattr(fleet_checks, "people", fails)
    found = told()
    assert found["engineers"][0] == WRONG
    assert "RuntimeError: of the test" in found["engineers"][1]
    assert found["audit record"][0] == OK


@pytest.mark.parametrize(
    ("changes", "name", "state"),
    [
        ({"secret_key": "short"}, "secret key", WRONG),
        ({"public_url": "http://x.example"}, "public address", WRONG),
        ({"public_url": "https://x.example/portal"}, "public address", WRONG),
        ({"hosts": "https://x.example"}, "allowed hosts", WRONG),
        ({"trusted_proxies": ""}, "trusted proxies", WRONG),
        ({"trusted_proxies": "0.0.0.0/0"}, "trusted proxies", WRONG),
        ({"mode": "development", "secret_key": "short"}, "secret key", NOTE),
        ({}, "secret key", OK),
        ({}, "public address", OK),
        ({}, "allowed hosts", OK),
        ({}, "trusted proxies", OK),
    ],
)
def test_settings_are_judged(changes: dict[str, str], name: str, state: str) -> None:
    right = {"mode": "production", "secret_key": "k" * 40, "public_url": "https://x.example",
             "trusted_proxies": "10.0.0.0/24", "hosts": "y.example"}  # fmt: skip
    config = Config.model_construct(**{**Config().model_dump(), **right, **changes})
    assert {each.name: each.state for each in settings_checks.check(config)}[name] == state


def test_a_message_of_celery_itself_carries_when_it_was_sent(broker: str, cast: Cast) -> None:
    redis.Redis.from_url(broker).flushall()
    wake._send("workloads.reconcile", "nobody", wake.URGENT)
    wake._send("workloads.reconcile", "nobody", wake.LATER)
    found = {each.name: each for each in queues.read()}
    assert [found[name].length for name in ("urgent", "later")] == [1, 1]
    assert all(0 < each.lag < patient(60) for each in found.values())
    redis.Redis.from_url(broker).flushall()


def spoil(config: Config) -> Config:
    """Every text of a setting that may be anything holds the canary."""
    texts = {
        name: CANARY
        for name, field in Config.model_fields.items()
        if name not in bundle.SHOWN and isinstance(getattr(config, name), str)
    }
    address = f"redis://{CANARY}:{CANARY}@{CANARY}:1/{CANARY}?{CANARY}"
    addresses = dict.fromkeys(bundle.ADDRESSES, address)
    return config.model_copy(update={**texts, **addresses, "redis_url": config.redis_url})


def spoil_rows() -> None:
    """So does every text column of every table of ours, and every JSON."""
    for model in apps.get_models():
        if not model.__module__.startswith("apps.") or model is AuditEvent:
            continue
        for field in model._meta.concrete_fields:
            fits = (
                isinstance(field, models.CharField | models.TextField)
                and not field.choices
                and not field.unique
            )
            if fits and (field.max_length or 99) > 12 and "slug" not in field.name and not field.primary_key:
                model._base_manager.update(**{field.name: CANARY})
    fact = {"type": "Synced", "status": "False", "reason": "Invalid", "message": CANARY, "since": "2026",
            "observed_generation": 1}  # fmt: skip
    for each in (Workload, Tenant):
        each.objects.update(attempts=3, conditions=[fact])
    Cluster.objects.update(
        message=CANARY, capabilities=[{**PIECES[0], "available": False, "message": CANARY}]
    )


def test_no_secret_is_in_the_support_bundle(
    cast: Cast, no_broker: None, settings: Settings, tmp_path: Path
) -> None:
    make_workload(cast.vision, cast.rosa, cast.offer)
    Authenticator.objects.create(user=cast.rosa)
    Passkey.objects.create(user=cast.rosa, digest="d", created_at=timezone.now())
    spoil_rows()
    assert Authenticator.objects.get().sealed == CANARY
    assert Cluster.objects.get().kubeconfig_sealed == CANARY
    settings.CONFIG = spoil(settings.CONFIG)
    found, path = list(doctor.examine(timezone.now())), tmp_path / "bundle.tar.gz"
    assert any(CANARY in each.told for each in found), "a cluster's own words are shown in the terminal"
    bundle.write(path, found, settings.CONFIG, timezone.now())
    with tarfile.open(path) as tar:
        parts = {name: tar.extractfile(name).read().decode() for name in tar.getnames()}  # type: ignore[union-attr]
    assert {name.rpartition("/")[2] for name in parts} == {
        *("doctor.json", "settings.json", "versions.json", "migrations.json", "counts.json"),
        "reconcile-errors.json",
    }
    assert [name for name, text in parts.items() if CANARY in text] == []
    assert path.stat().st_mode & 0o077 == 0
    errors = json.loads(parts["allotment-support/reconcile-errors.json"])
    assert {(each["kind"], each["reason"], each["attempts"]) for each in errors} == {
        ("workload", "Invalid", 3),
        ("tenant", "Invalid", 3),
    }
    assert json.loads(parts["allotment-support/counts.json"])["accounts.User"] == User.objects.count()
    changed = json.loads(parts["allotment-support/settings.json"])["changed"]
    assert "secret_key" in changed


def test_the_command_writes_the_bundle_and_says_so(cast: Cast, no_broker: None, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    assert run("--support-bundle", str(path))[0] == 1
    with tarfile.open(path) as tar:
        assert "allotment-support/doctor.json" in tar.getnames()


def test_the_version_is_the_one_of_the_project_and_the_chart() -> None:
    assert f'\nversion = "{VERSION}"\n' in (ROOT / "pyproject.toml").read_text()
    assert f"appVersion: {VERSION}" in (ROOT / "k8s/allotment/Chart.yaml").read_text()
