"""From an SSH key to commands in a workload's container, run as the member's own account in the cluster.

The product itself has no right to run commands: whoever holds its credential still gets into no container,
and the cluster's own audit log names the person.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from apps.accounts import actors
from apps.accounts.actors import Credential
from apps.accounts.models import SshKey
from apps.accounts.specs import Actor
from apps.accounts.ssh_keys import keeping
from apps.audit import services as audit
from apps.cluster.gateway.port import PodAccess, open_as
from apps.ranges import KUBECONFIG_SECONDS
from apps.tenants.live.services import cluster_reads
from apps.workloads.changes.services import writing
from apps.workloads.models import Workload
from apps.workloads.opening.rules.hosts import ShellName
from apps.workloads.opening.selectors import shell_access
from apps.workloads.opening.services import reaching
from apps.workloads.selectors.reading import workload_named

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


@transaction.atomic
def enter(*, key: SshKey, name: ShellName, now: datetime) -> Workload:
    """Let the key's person into the workload of that name. Rule: `shell_access.refusal`; it is written down
    who came to whose, with which key.
    """
    actor = owner_of(key)
    row = workload_named(actor, name.workload, name.tenant)
    if refused := shell_access.refusal(actor, row):
        raise refused
    changes = {"of": [None, row.owner.username], "key": [None, key.fingerprint]}
    audit.record(actor, "workload.shell", row, now=now, changes=changes)
    if key.user_id != row.owner_id:
        writing.note(row, now, "Shell", f"{actor.username} came in by SSH.")
    keeping.note_use(key, now)
    return row


def owner_of(key: SshKey) -> Actor:
    """The key's person, with all of their rights; raises InvalidToken once they are disabled."""
    return actors.maker(Credential(key.user_id))


def account_in(row: Workload, key: SshKey, place: int) -> Account:
    """The person's account in the workload's cluster, for ten minutes, and the pod of that place.

    Raises as `cluster_reads.credential` does, and Conflict where no such pod runs.
    """
    pod = reaching.pod_at(row, place)
    token, ends_at = cluster_reads.credential(owner_of(key), row.tenant, seconds=KUBECONFIG_SECONDS.least)
    return Account(open_as(row.cluster, token), row.tenant.object_name, pod, ends_at)
