"""The live objects of one workload out of its mirror rows. Pure."""

from collections import defaultdict
from collections.abc import Iterable

from apps.cluster.specs import Observed
from apps.workloads.status.derivation import ObservedWorkload


def gather(observed: Iterable[Observed], *, controller_kind: str, wanted: bool) -> ObservedWorkload:
    """Sort a row's objects into the present run and what remains of an earlier one.

    RULE: nothing is applied while anything of an earlier run is left: a new StatefulSet would meet the old
    pod of the same name, and Kueue refuses it while the old Workload goes.
    """
    found: defaultdict[str, list[Observed]] = defaultdict(list)
    for each in observed:
        found[each.ref.kind].append(each)
    controllers = [each for each in found[controller_kind] if not each.controller_uid]
    controller = _living(controllers)
    pods = _children(found["Pod"], [controller] if controller else [])
    # Kueue makes the pods of a group owners of its Workload beside the object that made them.
    family = [controller, *pods] if controller else []
    queued = _children(found["Workload"], family)
    entry = _living(queued)
    everything = len(controllers) + len(found["Pod"]) + len(found["Workload"])
    present = len(family) + len(queued)
    return ObservedWorkload(
        controller=controller.body if controller else None,
        queued=entry.body if entry else None,
        pods=tuple(pod.body for pod in pods),
        claims=tuple(claim.body for claim in _children(found["ResourceClaim"], family)),
        remains=everything - present if wanted else everything,
    )


def _children(objects: Iterable[Observed], parents: Iterable[Observed]) -> list[Observed]:
    """Those that one of these made."""
    uids = {parent.uid for parent in parents}
    return [each for each in objects if each.controller_uid in uids]


def _living(objects: Iterable[Observed]) -> Observed | None:
    """The first that is not on its way out."""
    return next((each for each in objects if not each.deleting), None)
