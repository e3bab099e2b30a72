"""JobSet v1alpha2 as the sandbox serves it: the fields of JobSet 0.12 that decide what runs.

Pod templates are those of batch/v1, so that server-side apply merges them field by field, as on a real
cluster.
"""

from __future__ import annotations

from sandbox.api.meta.objects import Obj
from sandbox.kinds.table import load

GROUP, VERSION = "jobset.x-k8s.io", "v1alpha2"
_JOB_SPEC = load("schemas")["io.k8s.api.batch.v1.JobSpec"]
"""Without the defaults of a Job of its own: JobSet has others."""
_TEXT, _FLAG = {"type": "string"}, {"type": "boolean"}
_COUNT = {"type": "integer", "format": "int32", "minimum": 0}
_TEXTS = {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "atomic"}
_MAP = {"type": "object", "additionalProperties": _TEXT}
_ACTIONS = ["FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"]


def _object(required: tuple[str, ...] = (), **properties: Obj) -> Obj:
    found: Obj = {"type": "object", "properties": properties}
    return found | ({"required": list(required)} if required else {})


def _listed(key: str, item: Obj) -> Obj:
    return {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
    }


_REPLICATED = _object(
    ("name", "template"),
    name=_TEXT,
    groupName=_TEXT,
    replicas={**_COUNT, "default": 1},
    template=_object(metadata=_object(labels=_MAP, annotations=_MAP), spec=_JOB_SPEC),
)
_RULE = _object(
    ("action", "name"),
    name=_TEXT,
    action={**_TEXT, "enum": _ACTIONS},
    onJobFailureReasons=_TEXTS,
    targetReplicatedJobs=_TEXTS,
)
_SPEC = _object(
    network=_object(enableDNSHostnames=_FLAG, subdomain=_TEXT, publishNotReadyAddresses=_FLAG),
    successPolicy=_object(
        ("operator",), operator={**_TEXT, "enum": ["All", "Any"]}, targetReplicatedJobs=_TEXTS
    ),
    failurePolicy=_object(
        maxRestarts=_COUNT,
        restartStrategy=_TEXT,
        rules={"type": "array", "items": _RULE, "x-kubernetes-list-type": "atomic"},
    ),
    startupPolicy=_object(startupPolicyOrder=_TEXT),
    suspend=_FLAG,
    ttlSecondsAfterFinished=_COUNT,
    managedBy=_TEXT,
    replicatedJobs=_listed("name", _REPLICATED),
)
_CONDITION = _object(
    ("type", "status"),
    type=_TEXT, status=_TEXT, reason=_TEXT, message=_TEXT, lastTransitionTime=_TEXT,
    observedGeneration={"type": "integer", "format": "int64"},
)  # fmt: skip
_STATUS = _object(
    conditions=_listed("type", _CONDITION),
    restarts=_COUNT,
    restartsCountTowardsMax=_COUNT,
    terminalState=_TEXT,
    replicatedJobsStatus=_listed(
        "name",
        _object(
            ("name",),
            name=_TEXT, ready=_COUNT, succeeded=_COUNT, failed=_COUNT, active=_COUNT, suspended=_COUNT,
        ),
    ),
)  # fmt: skip
_COLUMNS = [
    {"name": "TerminalState", "type": "string", "jsonPath": ".status.terminalState"},
    {"name": "Restarts", "type": "string", "jsonPath": ".status.restarts"},
    {"name": "Completed", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Completed")].status'},
    {"name": "Suspended", "type": "string", "jsonPath": ".spec.suspend"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
DEFINITION: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"jobsets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": "JobSet", "listKind": "JobSetList", "plural": "jobsets", "singular": "jobset"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _object(spec=_SPEC, status=_STATUS)},
                "subresources": {"status": {}},
                "additionalPrinterColumns": _COLUMNS,
            }
        ],
    },
}
