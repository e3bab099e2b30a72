"""`manage.py seed_demo`: sign-ins, one department, one tenant, the fleet's offers, quota = inventory.

On a simulated fleet it tells the story of `portal.story` instead: three tenants, work running and waiting.
Everything goes through the services that REST calls, so the demo shows nothing that a user could not make.
Running it again changes nothing that is there.
"""

import json
import os
import time
import urllib.request
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import ApiToken, User
from apps.accounts.services import create_token, create_user
from apps.accounts.specs import Actor, PlatformRole, system_actor
from apps.cluster.models import Cluster, WatchPosition
from apps.cluster.registration.services.clusters import register_cluster
from apps.errors import DomainError
from apps.quotas.allowances.services.quota_changes import grant_everything
from apps.quotas.catalogue.services.adoption import adopt_inventory
from apps.quotas.models import Offer
from apps.tenants.lifecycle.services.tenancy import create_department, create_tenant, set_member
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import Role, TrustLevel
from apps.workloads.templates.services import shipping
from portal import story

PEOPLE = {
    "researcher": ("Rosa", ""),
    "lead": ("Leon", ""),
    "platform": ("Petra", PlatformRole.PLATFORM),
}
SEEDER = system_actor("seed")
INVENTORY_KINDS = ("Node", "ResourceSlice")
STORY_SECONDS = 30
"""How long the story waits for its first part; after that it is told to the end all the same."""


class Command(BaseCommand):
    """Brings the first rows of a fresh installation."""

    help = "Create the demo's sign-ins, department, tenant, offers and quota against one cluster."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--kubeconfig", required=True)
        parser.add_argument("--simulated", action="store_true")
        parser.add_argument(
            "--url", default="", help="where the portal will answer; it is announced when it does"
        )
        parser.add_argument("--wait", type=int, default=120, help="seconds to wait for each thing it needs")

    def handle(self, *_args: Any, **options: Any) -> None:
        kubeconfig, seconds, url = Path(options["kubeconfig"]), options["wait"], options["url"]
        _until(kubeconfig.is_file, f"There is no kubeconfig at {kubeconfig}", seconds)
        now = datetime.now(UTC)
        try:
            cluster = register_cluster(
                actor=SEEDER,
                slug="demo",
                name="Demo cluster",
                kubeconfig_path=str(kubeconfig),
                is_simulated=options["simulated"],
                now=now,
            )
        except DomainError as error:
            raise CommandError(error.detail) from error
        people = {username: _person(username) for username in PEOPLE}
        _tokens(people)
        _link(kubeconfig)
        _until(
            lambda: _is_listed(cluster),
            f"The watcher listed no inventory of {cluster.slug}; see its log",
            seconds,
        )
        shipping.add_shipped(actor=SEEDER, now=now)
        adopt_inventory(actor=SEEDER, cluster=cluster, now=now)
        if not Offer.objects.filter(cluster=cluster).exists():
            raise CommandError(
                "The cluster publishes no GPU: no ResourceSlice of the driver gpu.nvidia.com was found."
            )
        if options["simulated"]:
            story.tell(cluster, now)
            _wait(story.is_judged, STORY_SECONDS)
            story.end(now)
        else:
            grant_everything(actor=SEEDER, tenant=_tenant(cluster, now), now=now)
        if url:
            _until(lambda: _answers(f"{url}/healthz"), f"The portal does not answer at {url}", seconds)
            self.stdout.write(f"Allotment is ready at {url}")
            if settings.CONFIG.apps:
                self.stdout.write(f"Notebooks open at {settings.CONFIG.apps.everywhere}")


def _person(username: str) -> User:
    found = User.objects.filter(username=username).first()
    display_name, role = PEOPLE[username]
    return found or create_user(
        actor=SEEDER, username=username, display_name=display_name, password=None, platform_role=role
    )


def _tokens(people: dict[str, User]) -> None:
    """One token for each, kept in tokens.json (mode 0600); made again when the file or a token is gone."""
    path = Path(settings.CONFIG.home) / "tokens.json"
    if path.exists() and ApiToken.objects.filter(
        name="demo", expires_at__gt=datetime.now(UTC)
    ).count() == len(people):
        return
    tokens = {}
    for username, user in people.items():
        actor = Actor(username=username, user_id=user.id, platform_role=user.platform_role)
        _row, tokens[username] = create_token(
            actor=actor, name="demo", scopes=[], tenants=[], expires_in_days=90, now=datetime.now(UTC)
        )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(tokens, file, indent=1)


def _link(kubeconfig: Path) -> None:
    """`kubeconfig` in the home leads to the cluster in use, wherever its own file lies."""
    link = Path(settings.CONFIG.home) / "kubeconfig"
    if link.resolve() != kubeconfig.resolve():
        link.unlink(missing_ok=True)
        link.symlink_to(kubeconfig)


def _is_listed(cluster: Cluster) -> bool:
    listed = WatchPosition.objects.filter(cluster=cluster, kind__in=INVENTORY_KINDS, listed_at__isnull=False)
    return listed.count() == len(INVENTORY_KINDS)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _until(is_so: Callable[[], bool], otherwise: str, seconds: int) -> None:
    if not _wait(is_so, seconds):
        raise CommandError(f"{otherwise} (waited {seconds} s).")


def _wait(is_so: Callable[[], bool], seconds: int) -> bool:
    until = time.monotonic() + seconds
    while not (done := is_so()) and time.monotonic() < until:
        time.sleep(0.2)
    return done


def _tenant(cluster: Cluster, now: datetime) -> Tenant:
    found = Tenant.objects.filter(slug="vision").first()
    if found:
        return found
    department = Department.objects.filter(slug="research").first() or create_department(
        actor=SEEDER, slug="research", name="Research", cluster=cluster, now=now
    )
    tenant = create_tenant(
        actor=SEEDER,
        slug="vision",
        name="Vision",
        department=department,
        trust_level=TrustLevel.STANDARD,
        now=now,
    )
    set_member(actor=SEEDER, tenant=tenant, username="researcher", role=Role.MEMBER, now=now)
    set_member(actor=SEEDER, tenant=tenant, username="lead", role=Role.LEAD, now=now)
    return tenant
