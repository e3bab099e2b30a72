"""The live objects of one workload out of its mirror rows. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from apps.cluster.specs import Observed
from apps.workloads.specs import ALONE, SET
from apps.workloads.status.containers import has_ended, has_failed
from apps.workloads.status.derivation import Body, ObservedWorkload, condition_of, is_true

REPLACES = "Deployment"
"""The kind of controller that replaces its pods one by one."""
SET_UID = "jobset.sigs.k8s.io/jobset-uid"
"""Label that JobSet writes on the Jobs and pods of a set."""


def gather(observed: Iterable[Observed], *, controller_kind: str, wanted: bool) -> ObservedWorkload:
    """Sort a row's objects into the present run and what remains of an earlier one.

    RULE: nothing is applied while anything of an earlier run is left: a new StatefulSet would meet the old
    pod of the same name, and Kueue refuses it while the old Workload goes.
    """
    found: defaultdict[str, list[Observed]] = defaultdict(list)
    for each in observed:
        found[each.ref.kind].append(each)
    if controller_kind == REPLACES:
        return _replaced(found, wanted=wanted)
    if controller_kind == ALONE and not found[SET]:
        return _alone(found, wanted=wanted)
    controller_kind = SET if controller_kind == ALONE else controller_kind
    controllers = [each for each in found[controller_kind] if not each.controller_uid]
    controller = _living(controllers)
    # A JobSet makes Jobs, and those make the pods.
    between = [each for each in found["Job"] if each.controller_uid]
    makers = [controller, *_children(between, [controller])] if controller else []
    pods = _children(found["Pod"], makers) + _ahead(found["Pod"], controller, makers)
    # Kueue makes the pods of a group owners of its Workload beside the object that made them.
    family = [*makers, *pods]
    queued = _children(found["Workload"], family)
    entry = _living(queued)
    everything = len(controllers) + len(between) + len(found["Pod"]) + len(found["Workload"])
    present = len(family) + len(queued)
    return ObservedWorkload(
        controller=controller.body if controller else None,
        queued=entry.body if entry else None,
        pods=tuple(pod.body for pod in pods),
        claims=tuple(claim.body for claim in _children(found["ResourceClaim"], family)),
        remains=everything - present if wanted else everything,
    )


def _alone(found: Mapping[str, list[Observed]], *, wanted: bool) -> ObservedWorkload:
    """Of a pod that nothing makes anew but we. One that goes or has ended is no longer the present run; what
    evicted it is said until it is gone.
    """
    everything = len(found["Pod"]) + len(found["Workload"])
    current = [pod for pod in found["Pod"] if not (pod.deleting or has_ended(pod.body))][:1]
    # One that is being removed may fail of that.
    failed = (pod.body for pod in found["Pod"] if has_failed(pod.body) and not pod.deleting)
    queued = _children(found["Workload"], current)
    evicted = [entry for entry in found["Workload"] if is_true(entry.body, "Evicted")]
    entry = _living(queued or evicted)
    return ObservedWorkload(
        controller=current[0].body if current else None,
        queued=entry.body if entry else None,
        pods=tuple(pod.body for pod in current),
        claims=tuple(claim.body for claim in _children(found["ResourceClaim"], current)),
        remains=everything - len(current) - len(queued) if wanted else everything,
        failed=next(failed, None),
    )


def _replaced(found: Mapping[str, list[Observed]], *, wanted: bool) -> ObservedWorkload:
    """Of what makes and removes its pods all the time. Its ReplicaSets, which own them, are not watched.

    RULE: while it is there, each pod is its own, and what goes is no remains: it was made only once all of an
    earlier run had gone.
    """
    controllers = found[REPLACES]
    controller = _living(controllers)
    pods, queued = sorted(found["Pod"], key=_name), sorted(found["Workload"], key=_name)
    everything = len(controllers) + len(pods) + len(queued)
    is_present = wanted and controller is not None
    return ObservedWorkload(
        controller=controller.body if controller else None,
        queued=_foremost(queued) if controller else None,
        pods=tuple(pod.body for pod in pods) if controller else (),
        claims=tuple(claim.body for claim in _children(found["ResourceClaim"], pods)) if controller else (),
        remains=0 if is_present else everything,
    )


def _foremost(queued: Iterable[Observed]) -> Body | None:
    """Each pod is queued by itself: what was admitted first stands for all, else the first that waits."""
    living = [each.body for each in queued if not each.deleting and not is_true(each.body, "Finished")]
    admitted = [body for body in living if is_true(body, "Admitted")]
    return min(admitted, key=_admitted_at) if admitted else next(iter(living), None)


def _admitted_at(queued: Body) -> str:
    return str((condition_of(queued, "Admitted") or {}).get("lastTransitionTime"))


def _name(each: Observed) -> str:
    return each.ref.name


def _children(objects: Iterable[Observed], parents: Iterable[Observed]) -> list[Observed]:
    """Those that one of these made."""
    uids = {parent.uid for parent in parents}
    return [each for each in objects if each.controller_uid in uids]


def _ahead(
    pods: Iterable[Observed], controller: Observed | None, makers: Iterable[Observed]
) -> list[Observed]:
    """Pods whose Job is not seen yet, or no longer. Kinds are watched apart, so that a pod may come before
    its Job and go after it. JobSet writes its own uid on each: one that names the living set is no remains.
    """
    if controller is None:
        return []
    known = {maker.uid for maker in makers}
    return [
        pod
        for pod in pods
        if pod.controller_uid not in known
        and pod.body.get("metadata", {}).get("labels", {}).get(SET_UID) == controller.uid
    ]


def _living(objects: Iterable[Observed]) -> Observed | None:
    """The first that is not on its way out."""
    return next((each for each in objects if not each.deleting), None)
