"""From an SSH key, or a code for a terminal of a page or a program, to commands in a workload's container,
run as the member's own account in the cluster.

The product itself has no right to run commands: whoever holds its credential still gets into no container,
and the cluster's own audit log names the person.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction

from apps.accounts import actors
from apps.accounts.actors import Credential
from apps.accounts.models import SshKey, User
from apps.accounts.specs import Actor
from apps.accounts.ssh_keys import keeping
from apps.accounts.tokens import digest
from apps.audit import services as audit
from apps.cluster.gateway.port import PodAccess, open_as
from apps.errors import NotAllowed, NotFound
from apps.ranges import KUBECONFIG_SECONDS
from apps.tenants.live.services import cluster_reads
from apps.workloads.changes.services import writing
from apps.workloads.models import Opening, Workload
from apps.workloads.opening.rules.hosts import ShellName
from apps.workloads.opening.selectors import access, shell_access
from apps.workloads.opening.services import openings, reaching
from apps.workloads.selectors.reading import workload_for, workload_named
from apps.workloads.specs import Phase

SOON = timedelta(seconds=60)
"""A credential that ends sooner is not used any more."""


@dataclass(frozen=True)
class Account:
    """A member's own account in a cluster, and one pod in its reach."""

    pods: PodAccess
    namespace: str
    pod: str
    ends_at: datetime

    def lasts(self, now: datetime) -> bool:
        """Whether the cluster still takes its credential."""
        return now + SOON < self.ends_at


@dataclass(frozen=True)
class OneTimeTerminal:
    """A terminal that may be opened once, until then: where a WebSocket connects, and what it says first."""

    url: str
    code: str
    expires_at: datetime


@dataclass(frozen=True)
class Inside:
    """Somebody who has come in: by an SSH key, or by what their terminal ends with: sign-in or API token."""

    row: Workload
    credential: Credential
    key: UUID | None = None

    def actor(self) -> Actor:
        """As the database has them now; raises InvalidToken once they are disabled, or signed out."""
        return actors.again(self.credential) if self.credential.session else actors.maker(self.credential)


@transaction.atomic
def enter(*, key: SshKey, name: ShellName, now: datetime) -> Inside:
    """Let the key's person into the workload of that name. Rule: `shell_access.refusal`; it is written down
    who came to whose, with which key.
    """
    credential = Credential(key.user_id)
    actor = actors.maker(credential)
    row = workload_named(actor, name.workload, name.tenant)
    _require(actor, row)
    _record(actor, row, "key", key.fingerprint, now=now)
    keeping.note_use(key, now)
    return Inside(row, credential, key.pk)


@transaction.atomic
def offer_terminal(
    *, actor: Actor, credential: Credential, workload: Workload, now: datetime
) -> OneTimeTerminal:
    """A code that lets this sign-in's browser, or a program with this token, open one terminal in the
    workload, once and soon. Rule: as `enter`, and for people alone.
    """
    _require_person(credential)
    _require(actor, workload)
    if settings.CONFIG.apps is None:
        raise RuntimeError("there is no door here: no shell was to be had")
    code = secrets.token_urlsafe(32)
    made = Opening.objects.create(
        workload=workload,
        user_id=credential.user,
        token_id=credential.token,
        session=credential.session,
        is_terminal=True,
        code=digest(code),
        code_ends_at=now + openings.CODE_LIFE,
        ends_at=now + openings.CODE_LIFE,
    )
    return OneTimeTerminal(settings.CONFIG.apps.terminal(workload.pk), code, made.code_ends_at)


@transaction.atomic
def enter_terminal(*, workload: UUID, code: str, is_page: bool, now: datetime) -> Inside:
    """Exchange a code for a shell, once: of two that come at once one deletes the row.

    RULE: `is_page` says whether a page of the portal brings it. Only that brings the code of a sign-in: what
    leaked from a browser is of no use outside of it. A token's code may come from anywhere, as its token may.

    Raises NotFound for what is no code of this workload any more, NotAllowed for a sign-in's that comes by
    itself, and as `enter`.
    """
    live = Opening.objects.filter(
        code=digest(code), workload=workload, is_terminal=True, code_ends_at__gt=now
    )
    offered = live.first()
    if offered and offered.token_id is None and not is_page:
        raise NotAllowed("This code was made for a browser.", hint="Ask for one with an API token.")
    if offered is None or not live.delete()[0]:
        raise NotFound(openings.OVER)
    credential = access.credential(offered)
    actor = actors.again(credential)
    row = workload_for(actor, workload)
    _require(actor, row)
    _record(actor, row, "by", "terminal", now=now)
    return Inside(row, credential)


def _require_person(credential: Credential) -> None:
    if User.objects.filter(pk=credential.user, is_service=True).exists():
        raise NotAllowed(
            "A service account has no terminal: a shell is a person's.",
            hint="Use a person's API token, or kubectl exec with the account's kubeconfig.",
        )


def _require(actor: Actor, row: Workload) -> None:
    if refused := shell_access.refusal(actor, row):
        raise refused


def _record(actor: Actor, row: Workload, name: str, value: str, *, now: datetime) -> None:
    """Who came to whose; by which API token is in every record. What happens in another person's workload is
    among its events too.
    """
    changes = {"of": [None, row.owner.username], name: [None, value]}
    audit.record(actor, "workload.shell", row, now=now, changes=changes)
    if actor.user_id != row.owner_id:
        terminal = "by a terminal of a program" if actor.token_id else "by a terminal in the page"
        way = "by SSH" if name == "key" else terminal
        writing.note(row, now, "Shell", f"{actor.username} came in {way}.")


def account_in(inside: Inside, place: int) -> Account:
    """The person's account in the workload's cluster, for ten minutes, and the pod of that place.

    Raises as `cluster_reads.shell_credential` does, and Conflict where no such pod runs.
    """
    row = inside.row
    pod = reaching.pod_at(row, place)
    seconds = KUBECONFIG_SECONDS.least
    token, ends_at = cluster_reads.shell_credential(inside.actor(), row.tenant, seconds=seconds)
    return Account(open_as(row.cluster, token), row.tenant.object_name, pod, ends_at)


def note_use(workload: UUID, now: datetime) -> None:
    """Somebody types in a shell: evidence of use for the idle policy. No change that people made, so neither
    `updated_at` nor a generation.
    """
    Workload.objects.filter(pk=workload, phase=Phase.RUNNING).update(shell_used_at=now)
