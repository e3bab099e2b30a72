"""Kueue's webhooks: suspend Jobs, gate pods, mark templates, and refuse changes of what is queued.

Only objects with a queue label in a managed namespace, and pods of marked parents, are touched. A LocalQueue
named `default` labels everything without a queue, as in Kueue.
"""

from __future__ import annotations

import hashlib

import orjson

from sandbox.api.admission.chain import Review
from sandbox.api.meta.errors import FieldError, admission_denied, field_forbidden, invalid_value
from sandbox.api.meta.objects import Obj, controller_of, dig, timestamp
from sandbox.controllers.job import JOBS
from sandbox.controllers.jobsets import JOBSETS
from sandbox.controllers.kueue import admission, names, queue_rules
from sandbox.controllers.kueue import status as state
from sandbox.controllers.statefulset import STATEFULSETS

DEPLOYMENTS = "deployments.apps"
IMMUTABLE = "field is immutable"
_HOOKS = {
    JOBS: "vjob.kb.io",
    STATEFULSETS: "vstatefulset.kb.io",
    DEPLOYMENTS: "vdeployment.kb.io",
    JOBSETS: "vjobset.kb.io",
    names.WORKLOADS: "vworkload.kb.io",
    names.CLUSTER_QUEUES: "vclusterqueue.kb.io",
}
_QUEUE_PATH = f"metadata.labels[{names.QUEUE_LABEL}]"


class KueueWebhooks:
    """Mutating and validating admission for the kinds Kueue integrates."""

    resources = frozenset(
        {JOBS, JOBSETS, STATEFULSETS, DEPLOYMENTS, "pods", names.WORKLOADS, names.CLUSTER_QUEUES}
    )

    def mutate(self, review: Review) -> None:
        """Defaulting on create; a StatefulSet's and Deployment's template is marked on update too."""
        concerned = review.operation in ("CREATE", "UPDATE") and not review.subresource
        if not concerned or review.resource in (names.WORKLOADS, names.CLUSTER_QUEUES):
            return
        creating = review.operation == "CREATE"
        if not self._managed(review):
            if creating and review.resource in (JOBS, JOBSETS) and names.queue_name(review.obj):
                # Kueue suspends it all the same, and nobody ever admits it.
                review.obj["spec"]["suspend"] = True
            return
        if creating and review.resource == "pods":
            self._gate(review)
        elif review.resource != "pods":
            if creating:
                self._default_queue(review)
            self._queued(review, creating=creating)

    def _queued(self, review: Review, *, creating: bool) -> None:
        """Make an object with a queue wait: a Job suspended, a template marked so that its pods are gated."""
        if not names.queue_name(review.obj):
            return
        if review.resource in (JOBS, JOBSETS) and creating:
            review.obj["spec"]["suspend"] = True
        elif review.resource == STATEFULSETS:
            _mark(review.obj["spec"]["template"], "statefulset")
        elif review.resource == DEPLOYMENTS:
            self._deployment(review.obj)

    def validate(self, review: Review) -> None:
        """Refuse what Kueue's validating webhooks refuse."""
        if review.resource == names.CLUSTER_QUEUES:
            if review.operation != "DELETE" and not review.subresource:
                _refuse(review, queue_rules.problems(review.obj))
            return
        if (
            review.operation != "UPDATE"
            or review.subresource
            or review.old is None
            or not self._managed(review)
        ):
            return
        checks = {
            JOBS: _job,
            JOBSETS: _job,
            STATEFULSETS: self._stateful,
            DEPLOYMENTS: _deployment_update,
            names.WORKLOADS: _workload,
        }
        check = checks.get(review.resource)
        _refuse(review, check(review) if check else [])

    def _managed(self, review: Review) -> bool:
        parent = dig(review.obj, "metadata", "annotations", names.SUSPENDING_PARENT)
        return bool(parent) or names.namespace_managed(review.client.get("namespaces", review.namespace))

    def _default_queue(self, review: Review) -> None:
        if names.queue_name(review.obj) or controller_of(review.obj):
            return
        if review.client.get(names.LOCAL_QUEUES, "default", review.namespace) is not None:
            review.obj["metadata"].setdefault("labels", {})[names.QUEUE_LABEL] = "default"

    def _deployment(self, deployment: Obj) -> None:
        template = deployment["spec"]["template"]
        _mark(template, "deployment")
        labels = template["metadata"].setdefault("labels", {})
        labels[names.QUEUE_LABEL] = names.queue_name(deployment)
        labels[names.MANAGED] = "true"
        priority = deployment["metadata"]["labels"].get(names.PRIORITY_LABEL)
        if priority:
            labels[names.PRIORITY_LABEL] = priority

    def _gate(self, review: Review) -> None:
        pod, meta = review.obj, review.obj["metadata"]
        annotations = meta.setdefault("annotations", {})
        if names.SUSPENDING_PARENT not in annotations:
            if self._queued_ancestor(review):
                return
            self._default_queue(review)
            if not names.queue_name(pod):
                return
            meta.setdefault("labels", {})[names.MANAGED] = "true"
            meta["finalizers"] = [*(meta.get("finalizers") or ()), names.MANAGED]
        admission.gate(pod["spec"])
        self._say_gated(review)
        annotations.setdefault(names.ROLE_HASH, _role_hash(pod["spec"]))

    def _say_gated(self, review: Review) -> None:
        """The API server states on a new pod that gates hold it; Kueue's gates come after its first look."""
        conditions = review.obj.setdefault("status", {}).setdefault("conditions", [])
        if not any(c["type"] == "PodScheduled" for c in conditions):
            conditions.append(
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": None,
                    "lastTransitionTime": timestamp(review.now),
                }
            )

    def _queued_ancestor(self, review: Review) -> bool:
        """A pod whose controller is itself queued follows its controller."""
        owner = controller_of(review.obj)
        resource = {"Job": JOBS, "StatefulSet": STATEFULSETS}.get(owner["kind"], "") if owner else ""
        found = review.client.get(resource, owner["name"], review.namespace) if owner and resource else None
        same = found is not None and owner is not None and found["metadata"]["uid"] == owner["uid"]
        return same and found is not None and bool(names.queue_name(found))

    def _stateful(self, review: Review) -> list[FieldError]:
        old, new = review.old or {}, review.obj
        problems = []
        if dig(old, "status", "readyReplicas", default=0) or not names.queue_name(new):
            problems += _same(names.queue_name(old), names.queue_name(new), _QUEUE_PATH)
        if not names.queue_name(new):
            return problems
        before, after = (_pod_shape(o["spec"]["template"]["spec"]) for o in (old, new))
        problems += _same(before, after, "spec.template.spec", shown=after)
        replicas = [int(dig(o, "spec", "replicas", default=1)) for o in (old, new)]
        if 0 not in replicas:
            problems += _same(replicas[0], replicas[1], "spec.replicas", shown=replicas[1])
        if replicas[0] == 0 and replicas[1] > 0:
            problems += self._scale_up(review, old)
        return problems

    def _scale_up(self, review: Review, old: Obj) -> list[FieldError]:
        if dig(review.obj, "status", "replicas", default=0):
            return [field_forbidden("spec.replicas", "scaling down is still in progress")]
        workload = review.client.get(names.WORKLOADS, names.workload_name(old), review.namespace)
        if workload is not None and not state.is_on_hold(workload):
            words = "workload from previous scale-down is still being deleted"
            return [field_forbidden("spec.replicas", words)]
        return []


def _refuse(review: Review, problems: list[FieldError]) -> None:
    if problems:
        texts = [problem.text() for problem in problems]
        message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        raise admission_denied(_HOOKS[review.resource], message)


def _mark(template: Obj, parent: str) -> None:
    annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
    annotations[names.SUSPENDING_PARENT] = parent


def _role_hash(spec: Obj) -> str:
    return hashlib.sha256(orjson.dumps(_pod_shape(spec), option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]


def _pod_shape(spec: Obj) -> Obj:
    """The parts of a pod spec that decide where and with what it runs; these may not change while queued."""
    containers = [
        {"resources": c.get("resources") or {}, "ports": c.get("ports") or []}
        for c in spec.get("containers") or ()
    ]
    kept = (
        "nodeSelector",
        "affinity",
        "tolerations",
        "priority",
        "topologySpreadConstraints",
        "overhead",
        "resourceClaims",
    )
    return {"containers": containers, **{key: spec[key] for key in kept if spec.get(key)}}


def _same(old: object, new: object, path: str, *, shown: object = None) -> list[FieldError]:
    return [] if old == new else [invalid_value(path, new if shown is None else shown, IMMUTABLE)]


def _job(review: Review) -> list[FieldError]:
    old, new = review.old or {}, review.obj
    if dig(new, "spec", "suspend"):
        return []
    return _same(names.queue_name(old), names.queue_name(new), _QUEUE_PATH)


def _deployment_update(review: Review) -> list[FieldError]:
    old, new = review.old or {}, review.obj
    if not dig(old, "status", "readyReplicas", default=0) and names.queue_name(new):
        return []
    return _same(names.queue_name(old), names.queue_name(new), _QUEUE_PATH)


def _workload(review: Review) -> list[FieldError]:
    old, new = review.old or {}, review.obj
    if not state.has_quota(old):
        return []
    problems = []
    for key in ("podSets", "queueName"):
        problems += _same(old["spec"].get(key), new["spec"].get(key), f"spec.{key}")
    return problems
