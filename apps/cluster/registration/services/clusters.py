"""The verbs on clusters: registering, changing and removing one. Reaching it is the watcher's work."""

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import ProtectedError

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.gateway import kubeconfig, mounted, usable
from apps.cluster.gateway.addresses import resolved_problem
from apps.cluster.models import Cluster
from apps.errors import AlreadyExists, Conflict, FieldProblem, Invalid, NotAllowed
from apps.sealing import seal, unseal

_SLUG = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_SLUG_WORDS = "Use 1 to 40 lowercase letters, digits and dashes; start with a letter, do not end with a dash."


def register_cluster(
    *,
    actor: Actor,
    slug: str,
    name: str,
    kubeconfig_path: str,
    is_simulated: bool,
    now: datetime,
) -> Cluster:
    """Register a cluster, or bring its registration up to date; the same again changes nothing.

    The kubeconfig is a file on the workers that only their operator can name, or the folder of the account
    that is mounted into their pods; programs in it are refused.
    """
    require_platform(actor)
    _check(kubeconfig_path)
    facts = {"name": name, "kubeconfig_path": kubeconfig_path, "is_simulated": is_simulated}
    with transaction.atomic():
        row, is_new = Cluster.objects.select_for_update().get_or_create(slug=slug, defaults=facts)
        changes = _changes(row, {} if is_new else facts)
        if is_new or changes:
            row.generation += 0 if is_new else 1
            row.save()
            audit.record(actor, "cluster.register", row, now=now, changes=changes)
    return row


@dataclass(frozen=True)
class Registration:
    """What may be set of a cluster over the network; None leaves it as it is."""

    name: str | None = None
    kubeconfig: str | None = None


@transaction.atomic
def add_cluster(*, actor: Actor, slug: str, wish: Registration, now: datetime) -> Cluster:
    """Registers a cluster by a kubeconfig of inline data. Rule: platform engineers; a slug is used once."""
    require_platform(actor)
    problems = [] if _SLUG.fullmatch(slug) else [FieldProblem("/slug", "invalid_value", _SLUG_WORDS)]
    if not wish.kubeconfig:
        problems.append(FieldProblem("/spec/kubeconfig", "required", "A kubeconfig is needed."))
    else:
        problems += inline_problems(wish.kubeconfig)
    if problems:
        raise Invalid(problems)
    if Cluster.objects.filter(slug=slug).exists():
        raise AlreadyExists(f"There already is a cluster {slug}.")
    row = Cluster.objects.create(
        slug=slug, name=wish.name or slug, kubeconfig_sealed=seal(str(wish.kubeconfig))
    )
    audit.record(actor, "cluster.register", row, now=now, changes={"name": [None, row.name]})
    return row


@transaction.atomic
def change_cluster(*, actor: Actor, cluster: Cluster, wish: Registration, now: datetime) -> Cluster:
    """Another name, or other credentials; the same again changes nothing. Rule: platform engineers.

    A cluster that its operator reaches by a file keeps that file: other credentials over the network are
    `wrong_phase`.
    """
    require_platform(actor)
    row = Cluster.objects.select_for_update().get(pk=cluster.pk)
    changes: dict[str, list[str | None]] = {}
    if wish.name and wish.name != row.name:
        changes["name"] = [row.name, wish.name]
        row.name = wish.name
    if wish.kubeconfig:
        if row.kubeconfig_path:
            raise Conflict(
                f"{row.slug} is registered with a kubeconfig file of its operator.", hint="Change that file."
            )
        if problems := inline_problems(wish.kubeconfig):
            raise Invalid(problems)
        if _known(row) != wish.kubeconfig:
            changes["kubeconfig"] = ["(kept secret)", "(replaced)"]
            row.kubeconfig_sealed = seal(wish.kubeconfig)
    if changes:
        row.generation += 1
        row.save()
        audit.record(actor, "cluster.update", row, now=now, changes=changes)
    return row


@transaction.atomic
def remove_cluster(*, actor: Actor, cluster: Cluster, now: datetime) -> None:
    """Forgets a cluster; nothing in it is touched. Rule: platform engineers; refused with `has_dependents`
    while anything is, or was, set up there: bills and history refer to it.
    """
    require_platform(actor)
    row = Cluster.objects.select_for_update().get(pk=cluster.pk)
    try:
        with transaction.atomic():
            row.delete()
    except ProtectedError as error:
        counted = Counter(str(each._meta.verbose_name) for each in error.protected_objects)
        words = ", ".join(
            f"{count} {name}{'s' if count > 1 else ''}" for name, count in sorted(counted.items())
        )
        raise Conflict(
            f"{row.slug} has, or had, {words}.",
            code="has_dependents",
            hint="A cluster with a history cannot be removed; delete its tenants and leave it silent.",
            dependents=dict(counted),
        ) from None
    audit.record(actor, "cluster.remove", cluster, now=now, changes={"name": [cluster.name, None]})


def inline_problems(text: str) -> list[FieldProblem]:
    """Why a kubeconfig that came over the network is refused: programs, files, no kubeconfig at all, or one
    that leads nowhere.
    """
    try:
        document = kubeconfig.read(text)
    except kubeconfig.NotYaml as error:
        return [FieldProblem("/spec/kubeconfig", "invalid_value", str(error))]
    allowed = settings.CONFIG.development_clusters
    refused = kubeconfig.problems(document, inline=True, allowed=allowed) or usable.problems(document)
    found = [text.split(": ", 1) for text in refused]
    return [
        FieldProblem("/spec/kubeconfig" + place.rstrip("/"), "invalid_value", f"It {words}.")
        for place, words in found
    ]


def require_no_detour(text: str | None) -> None:
    """Raises Invalid when a server's name leads where clusters may not be. Asks the name service, which may
    take its time: for before the transaction. What else is wrong is told by the write itself.
    """
    if not text or inline_problems(text):
        return
    allowed = settings.CONFIG.development_clusters
    told = (
        (place, resolved_problem(server, allowed))
        for place, server in kubeconfig.servers(kubeconfig.read(text))
    )
    problems = [
        FieldProblem(f"/spec/kubeconfig{place}", "invalid_value", f"It {words}.")
        for place, words in told
        if words
    ]
    if problems:
        raise Invalid(problems)


def _known(row: Cluster) -> str:
    try:
        return unseal(row.kubeconfig_sealed) if row.kubeconfig_sealed else ""
    except ValueError:
        # Sealed with another secret key: it is replaced by what is sent now.
        return ""


def require_platform(actor: Actor) -> None:
    """Raises NotAllowed for everybody but platform engineers whose credential reaches all tenants."""
    if not actor.is_platform:
        raise NotAllowed("Clusters are registered by platform engineers.")


def _changes(row: Cluster, facts: dict[str, Any]) -> dict[str, list[str]]:
    changed = {
        field: [str(getattr(row, field)), str(to)] for field, to in facts.items() if getattr(row, field) != to
    }
    for field, to in facts.items():
        setattr(row, field, to)
    return changed


def _check(path: str) -> None:
    pointer = "/spec/kubeconfig"
    if mounted.is_account(path):
        if wrong := mounted.problems(path):
            raise Invalid([FieldProblem(pointer, "unreadable", f"{words}.") for words in wrong])
        return
    try:
        document = kubeconfig.read(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise Invalid([FieldProblem(pointer, "unreadable", f"{path} cannot be read: {error}")]) from error
    refused = kubeconfig.problems(document) or usable.problems(document, Path(path).parent)
    found = [text.split(": ", 1) for text in refused]
    if found:
        raise Invalid([FieldProblem(pointer + place, "refused", words) for place, words in found])
