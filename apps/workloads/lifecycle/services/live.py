"""What is read from the cluster while somebody waits for it: a workload's logs. Stores nothing.

RULE: once its pods are gone, what was kept of its last run is answered instead, and named as that.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from apps.cluster.errors import Rejected
from apps.cluster.gateway.port import open_gateway
from apps.cluster.models import MirrorObject
from apps.errors import ClusterUnavailable, Conflict, DomainError, NotFound
from apps.workloads.lifecycle.selectors import kept_logs
from apps.workloads.log_models import KeptLog
from apps.workloads.manifests.pods import CONTAINER
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from apps.workloads.status import containers, last_run

MOST_LINES = 5000
NO_MORE = "What its run came to is in its status and its events."


@dataclass(frozen=True)
class Lines:
    """The end of a log, and whose it is; `kept`: which one it is of those that were kept, None where the
    cluster gave it.
    """

    text: str
    kept: KeptLog | None = None
    container: str = CONTAINER

    @property
    def other(self) -> str:
        """The container, where it is not the main one."""
        return "" if self.container == CONTAINER else self.container


def last_lines(
    row: Workload, *, pod: str = "", container: str = "", tail: int = 500, since_seconds: int = 0
) -> Lines:
    """As `logs`, or what was kept of the run that is over. Raises as `logs` where there is neither."""
    try:
        place = _place_of(row, pod, container)
        text = _read(row, place, previous=False, tail=tail, since_seconds=since_seconds)
        return Lines(text, container=place[1])
    except DomainError as refusal:
        log = instead(row, refusal, pod=pod, container=container)
    return kept_lines(log, tail)


def kept_lines(log: KeptLog, tail: int) -> Lines:
    """The end of a log that was kept."""
    return Lines(kept_logs.end_of(log, tail), log, log.container)


def instead(row: Workload, refusal: DomainError, *, pod: str = "", container: str = "") -> KeptLog:
    """The kept log that stands for one that the cluster refused; raises where there is none why not.

    RULE: of what waits for its next start only by name (`kept`): who waits for its lines gets no old ones.
    """
    is_over = Phase(row.phase).is_final or row.phase in (Phase.STOPPING, Phase.STOPPED)
    if not (is_over and row.last_run) or not isinstance(refusal, NotFound | Conflict | ClusterUnavailable):
        raise refusal
    try:
        return kept(row, pod=pod, container=container)
    except Conflict as why:
        raise (why if isinstance(refusal, Conflict) else refusal) from None


def kept(row: Workload, *, pod: str = "", container: str = "") -> KeptLog:
    """The log that was kept of its last run. Raises Conflict where there is none."""
    log = kept_logs.log_of(row, pod, container)
    if log is not None:
        return log
    run = last_run.stored(row.last_run)
    if run and run.problem:
        raise Conflict(f"The log could not be read when the run ended: {run.problem}", hint=NO_MORE)
    raise Conflict("Nothing is kept of its log.", hint=NO_MORE)


def logs(
    row: Workload,
    *,
    pod: str = "",
    container: str = "",
    previous: bool = False,
    tail: int = 500,
    since_seconds: int = 0,
) -> str:
    """The last lines of a pod; `previous`: of its container's run before the present one. Without a container
    those of the main one, or of the init container that failed before it.

    Raises NotFound for a pod that is not its own, Conflict where nothing runs yet, ClusterUnavailable where
    the cluster does not answer.
    """
    place = _place_of(row, pod, container)
    return _read(row, place, previous=previous, tail=tail, since_seconds=since_seconds)


def _read(row: Workload, place: tuple[str, str], *, previous: bool, tail: int, since_seconds: int) -> str:
    pod, container = place
    gateway = open_gateway(row.cluster)
    try:
        return gateway.pod_log(
            row.tenant.object_name,
            pod,
            container=container,
            previous=previous,
            tail_lines=min(tail, MOST_LINES),
            since_seconds=since_seconds,
        )
    except Rejected as error:
        raise _refusal(error) from None


def follow(
    row: Workload, *, pod: str = "", container: str = "", tail: int = 500
) -> AsyncGenerator[Sequence[str], None]:
    """The lines as they come, until the container ends or was quiet for ten minutes. Refuses as `logs` does;
    what the cluster says, only while it is read.
    """
    name, own = _place_of(row, pod, container)
    gateway = open_gateway(row.cluster)
    return _refusing(
        gateway.stream_log(row.tenant.object_name, name, container=own, tail_lines=min(tail, MOST_LINES))
    )


async def _refusing(batches: AsyncGenerator[Sequence[str], None]) -> AsyncGenerator[Sequence[str], None]:
    try:
        async with aclosing(batches):
            async for batch in batches:
                yield batch
    except Rejected as error:
        raise _refusal(error) from None


def _place_of(row: Workload, asked: str, container: str) -> tuple[str, str]:
    """The pod of that name if it is this workload's, without a name the newest that was given a node; and its
    container of that name, without one that whose log tells the most.
    """
    pods = MirrorObject.objects.filter(
        cluster=row.cluster_id,
        kind="Pod",
        namespace=row.tenant.object_name,
        owner_id=str(row.pk),
        gone_at=None,
    ).order_by("-created_at")
    if asked:
        pods = pods.filter(name=asked)
    for name, body in pods.values_list("name", "body"):
        if asked or (body.get("spec") or {}).get("nodeName"):
            return str(name), container or containers.failed_before(body) or CONTAINER
    if asked:
        raise NotFound
    raise Conflict("No pod of it has run yet, so there is no log.", hint="Wait until it has started.")


def _refusal(error: Rejected) -> Exception:
    if error.is_absent:
        return NotFound()
    return Conflict(f"The cluster has no log of it: {error.message}", hint="Wait until it has started.")
