"""The live objects of one workload out of its mirror rows. Pure."""

from collections.abc import Iterable

from apps.cluster.specs import Observed
from apps.workloads.status import ObservedWorkload


def gather(observed: Iterable[Observed], *, controller_kind: str, wanted: bool) -> ObservedWorkload:
    """Sort a row's objects into the present run and what remains of an earlier one.

    RULE: nothing is applied while anything of an earlier run is left: a new StatefulSet would meet the old
    pod of the same name, and Kueue refuses it while the old Workload goes.
    """
    seen = list(observed)
    controllers = [o for o in seen if o.ref.kind == controller_kind and not o.controller_uid]
    present = next((o for o in controllers if not o.deleting), None)
    uids = {present.uid} if present else set()
    pods = [o for o in seen if o.ref.kind == "Pod"]
    own_pods = [pod for pod in pods if pod.controller_uid in uids]
    # Kueue makes the pods of a group owners of its Workload beside the object that made them.
    family = uids | {pod.uid for pod in own_pods}
    queued = [o for o in seen if o.ref.kind == "Workload"]
    own_queued = [o for o in queued if o.controller_uid in family]
    everything = len(controllers) + len(pods) + len(queued)
    own = len(uids) + len(own_pods) + len(own_queued)
    return ObservedWorkload(
        controller=present.body if present else None,
        queued=next((o.body for o in own_queued if not o.deleting), None),
        pods=tuple(pod.body for pod in own_pods),
        claims=tuple(o.body for o in seen if o.ref.kind == "ResourceClaim" and o.controller_uid in family),
        remains=everything - own if wanted else everything,
    )
