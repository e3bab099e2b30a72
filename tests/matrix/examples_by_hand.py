"""Examples that no answer of the scene gives, each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from portal.api.declared.declaring import TEXT

ENDLESS: dict[str, str] = {"text/event-stream": "a stream of events has no body that could be shown whole"}
"""Media types without an example, with the reason."""

NO_CLUSTER = "the clusters of the scene are nowhere"
HELD = "everything of the scene is in use, and is refused"
PENDING = "the workloads of the scene run: nothing of theirs waits"


@dataclass(frozen=True)
class Like:
    """What another operation answers, with changes."""

    operation: str
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rehearsed:
    """What a dry run answers; `more` are members of its own."""

    result: Like | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def around(self, result: Any) -> dict[str, Any]:
        """The rehearsal of that result."""
        usual: dict[str, Any] = {"price": None, "fit": None, "queue": None}
        lists: dict[str, Any] = {"manifests": [], "alternatives": [], "warnings": []}
        return {"dry_run": True, "result": result, **usual, **lists, **self.more}


@dataclass(frozen=True)
class ByHand:
    """Why nobody of the scene gets it, what is sent, and what would be answered, by status: JSON, but for
    `media`, or for a media type after the status.
    """

    reason: str
    answers: Mapping[str, Any]
    takes: Any = None
    media: str = ""
    outdoes: bool = False
    """Somebody in the scene is answered too, but with less to see."""


def _removed(kind: str) -> ByHand:
    shown = Like(f"{kind}_retrieve")
    return ByHand(HELD, {"200": Rehearsed(shown), "202": shown})


def _node(takes: Any) -> ByHand:
    shown = Like("nodes_retrieve")
    return ByHand("the nodes of the scene are pooled and run workloads", _both(shown), takes)


def _both(shown: Like) -> dict[str, Any]:
    return {"200": Rehearsed(shown), "202": shown}


def _arranged(before: int | None, after: int | None, message: str, **takes: str) -> ByHand:
    effect = {"position_before": before, "position_after": after, "of": 3, "priority": 0, "message": message}
    shown = Like("workloads_retrieve")
    return ByHand(PENDING, {"200": Rehearsed(shown, {"effect": effect}), "202": shown}, takes)


_KUBECONFIG = {
    "kubeconfig": "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\ncontexts: []\n",
    "expires_at": "2026-11-23T10:00:00Z",
}
_TERMINAL = {
    "url": "wss://terminal.apps.example.net/5f0c1e2a-0000-4000-8000-000000000001",
    "code": "shown-once-and-never-again",
    "expires_at": "2026-11-23T09:00:00Z",
}
_CORRECTION = {"from": "2026-11-23T08:00:00Z", "to": "2026-11-23T08:30:00Z", "reason": "the node stood still"}
_MADE = {"made_by": "platform", "made_at": "2026-11-23T09:00:00Z"}

_STARTS_NOW = {
    "price": {"hourly": None, "total": None},
    "fit": {"verdict": "now", "reason": "Starts now", "message": "It starts now."},
}

_SLICE = {
    "offer": "h100-mig-slice", "name": "H100 1g.10gb", "sharing_mode": "mig", "gpu_memory": "10Gi",
    "isolation": "Memory and faults isolated", "is_spot": False, "devices_each": 1, "devices": 1,
    "hourly": {"amount": "0.42", "currency": "EUR"}, "total": {"amount": "1.26", "currency": "EUR"},
    "start": "now", "start_message": "Starts now.", "eta": None, "holders": [],
    "speaks_for": [
        "Memory and faults isolated.", "What is needed nearly fills it: little is paid for and left empty."
    ],
    "speaks_against": [], "warnings": [],
}  # fmt: skip
_NO_SPOT = {
    "offer": "h100-spot-whole", "name": "H100 spot whole", "reason": "taken_away",
    "message": "Spot: it may be taken away with 30 to 120 seconds' notice.",
}  # fmt: skip
_ADVICE = {
    "object": "advice", "tenant": "vision", "kind": "notebook", "as_of": "2026-11-23T09:00:00Z",
    "gpu_memory": "8Gi", "counted": None, "situation": "Development and experiments",
    "usual": "Time slices or small slices: simple and cheap. On time slices nobody may rely on memory.",
    "items": [_SLICE], "left_out": [_NO_SPOT], "comparison": None, "nearest": None,
}  # fmt: skip

_HEALTH = {
    "object": "health", "well": False, "checked_at": "2026-11-23T09:00:00Z", "host": "web-1",
    "findings": [
        {
            "name": "watcher", "state": "wrong", "seen": "none has told within 30 s that it lives",
            "cure": "Start `manage.py watch_cluster` (see the Procfile), or see its log", "local": False,
        },
        {
            "name": "disk", "state": "ok", "seen": "31 GiB of 50 GiB are free here", "cure": None,
            "local": True,
        },
    ],
    "parts": [
        {
            "kind": "web",
            "processes": [{"host": "web-1", "pid": 7, "since": "2026-11-21T09:00:00Z", "streams": 12}],
        },
        {"kind": "watcher", "processes": []},
    ],
    "queues": [{"name": "urgent", "length": 0, "oldest_seconds": 0}],
    "clusters": [{"cluster": "north", "seen_seconds": 2, "telemetry_seconds": 40, "ledger_seconds": 400}],
}  # fmt: skip

BY_HAND: dict[str, ByHand] = {
    "health_retrieve": ByHand(
        "the processes and the machine of the tests are nobody's example", {"200": _HEALTH}, outdoes=True
    ),
    "advice": ByHand("the scene's offers have no devices: none would do", {"200": _ADVICE}, outdoes=True),
    "allocations_correct_create": ByHand(
        "the scene's allocations have no ledger that a correction could change",
        {
            "200": Like(
                "allocations_retrieve",
                {
                    "from": _CORRECTION["from"],
                    "to": _CORRECTION["to"],
                    "corrections": [{**_CORRECTION, **_MADE}],
                    "effect": [],
                },
            )
        },
        _CORRECTION,
    ),
    "audit_events_export": ByHand(
        "a file that is made while it is read has no body that a recording could keep",
        {
            "200 text/csv": "id,at,actor,token,action,target_kind,target_id,target_name,tenant,request_id,"
            "reason,changes,chain,sequence,previous_hash,hash\r\n"
            "tenant:vision#12,2026-11-23T09:00:00Z,ada,,workload.stop,workload,"
            "5f0c1e2a-0000-4000-8000-000000000001,nb-ada,vision,5f0c1e2a-0000-4000-8000-000000000002,lunch,"
            f'"{{""suspend"": [false, true]}}",tenant:vision,12,{"0" * 64},{"0" * 64}\r\n',
            "200 application/jsonl": '{"object":"audit_event","id":"tenant:vision#12",'
            '"at":"2026-11-23T09:00:00Z","actor":"ada","token":null,"action":"workload.stop",'
            '"target":{"kind":"workload","id":"5f0c1e2a-0000-4000-8000-000000000001","name":"nb-ada"},'
            '"tenant":"vision","request_id":"5f0c1e2a-0000-4000-8000-000000000002","reason":"lunch",'
            '"changes":{"suspend":[false,true]},"chain":"tenant:vision","sequence":12,'
            f'"previous_hash":"{"0" * 64}","hash":"{"0" * 64}"}}\n',
        },
    ),
    "clusters_destroy": ByHand(HELD, {"200": Rehearsed()}),
    "departments_destroy": _removed("departments"),
    "findings_snooze_create": ByHand(
        "the matrix knows no time to come",
        {"200": Like("findings_retrieve")},
        {"until": "2026-11-23T18:00:00Z"},
    ),
    "flavors_destroy": _removed("flavors"),
    "namespaces_retrieve": ByHand(
        NO_CLUSTER,
        {
            "200": {
                "name": "optics-a000000001",
                "objects": [{"kind": "Pod", "names": ["notebook-0"]}],
                "seen": "directly",
                "problem": None,
            }
        },
    ),
    "nodes_assign_create": _node(
        {"tenant": "optics", "reason": "a month of training", "notice_seconds": 3600}
    ),
    "nodes_release_create": _node({"reason": "the training is done", "notice_seconds": 3600}),
    "offers_destroy": _removed("offers"),
    "prices_destroy": ByHand("the scene's prices are in force, and are refused", {"200": Rehearsed()}),
    "quotas_partial_update": ByHand(
        "the matrix sends the number alone; the document asks for the offer with it",
        {},
        {"spec": {"offer": "h100-slice", "nominal_quota": 5}},
    ),
    "tenants_approve_deletion_create": ByHand(
        "no tenant of the scene waits for its removal",
        {"200": Like("tenants_retrieve")},
        {"reason": "project ended"},
    ),
    "tenants_kubeconfig_create": ByHand(NO_CLUSTER, {"201": _KUBECONFIG}, {"expires_in_seconds": 3600}),
    "tenants_kubeconfig_credential_create": ByHand(
        NO_CLUSTER,
        {
            "200": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "kind": "ExecCredential",
                "status": {
                    "expirationTimestamp": "2026-11-23T10:00:00Z",
                    "token": "shown-once-and-never-again",
                },
            }
        },
    ),
    "tenants_kubeconfig_retrieve": ByHand(NO_CLUSTER, {"200": _KUBECONFIG}),
    "tenants_sleep_create": ByHand("tenants of the scene have no vCluster", _both(Like("tenants_retrieve"))),
    "tenants_wake_create": ByHand("tenants of the scene have no vCluster", _both(Like("tenants_retrieve"))),
    "workloads_hold_create": _arranged(
        1, None, "It waits until it is released.", reason="maintenance tonight"
    ),
    "workloads_logs_retrieve": ByHand(
        NO_CLUSTER, {"200": "epoch 1: loss 0.4131\nepoch 2: loss 0.3872\n"}, media=TEXT
    ),
    "workloads_move_create": _arranged(3, 1, "It goes before two others.", reason="deadline", to="front"),
    "workloads_rerun_failed_create": ByHand(
        "no array of the scene has failed",
        {"200": Rehearsed(Like("workloads_retrieve"), _STARTS_NOW), "201": Like("workloads_create")},
        {"slug": "fold-again", "name": "Fold, what failed"},
    ),
    "service_tokens_create": ByHand(
        "the workloads of the scene are notebooks, which have no tokens",
        {"201": Like("service_tokens_rotate", {"name": "nightly", "rotated_at": None, "old_ends_at": None})},
        {"name": "nightly"},
    ),
    "workloads_terminal_create": ByHand(
        "the policy Shell access of the scene's tenants is off", {"200": _TERMINAL}
    ),
    "workloads_release_create": _arranged(None, 3, "It queues again.", reason="maintenance is over"),
    "workloads_update": ByHand(
        "an address of the scene that is free is refused by its If-Match", {"201": Like("workloads_create")}
    ),
}
