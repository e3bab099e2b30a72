"""What the bypass corpus is tried in: two tenants as the product sets them up, their people, and what runs.

Applied with the product's own rights wherever the product would apply it: so the policies judge that too.
"""

from __future__ import annotations

import copy
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.controlplane import pki
from tests.controlplane.plane import ControlPlane
from tests.golden import golden
from tests.patience import until

Manifest = dict[str, Any]
ACCESS = "allotment-access"
MEMBER, LEAD = "member-1111111111", "member-2222222222"
IMAGE = "python:3.13"
NODES = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@dataclass(frozen=True)
class Answer:
    """What kubectl said."""

    accepted: bool
    words: str


def merged(target: Any, change: Any) -> Any:
    """JSON merge patch (RFC 7396): null removes a key, objects merge, all else replaces."""
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def pod_spec(offer: str, seconds: int = 600) -> Manifest:
    """A pod that every rule accepts."""
    return {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "main",
                "image": IMAGE,
                "imagePullPolicy": "Always",
                "command": ["sleep", str(seconds)],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {offer: "1"}},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }


@dataclass
class Scene:
    """Two tenants on a plane. `names` are what `{..}` in the corpus stands for."""

    plane: ControlPlane
    folder: Path
    tag: str = field(default_factory=lambda: uuid4().hex[:6])
    names: dict[str, str] = field(default_factory=dict)

    @property
    def space(self) -> str:
        """The namespace of the tenant whose people try."""
        return f"vision-{self.tag}"

    @property
    def other(self) -> str:
        """The namespace of the other tenant."""
        return f"speech-{self.tag}"

    @property
    def offer(self) -> str:
        """The one offer that the tenant has quota of: one device, and the fleet has one."""
        return f"allotment.dev/slice-{self.tag}"

    def set_up(self) -> None:
        """Both tenants, what the corpus refers to, and everybody's credentials."""
        self.names |= {
            "not_given": f"allotment.dev/none-{self.tag}",
            "space": self.space,
            "other": self.other,
        }
        for space, tenant in ((self.space, f"vision-{self.tag}"), (self.other, f"speech-{self.tag}")):
            self.product(*self._tenant(space, tenant))
        self.product(*self._quota())
        self._people()
        self._standing()

    def take_down(self) -> None:
        """Removes what is not in the namespaces too; the namespaces go on their own."""
        for kind, name in (("clusterqueue", self.space), ("resourceflavor", f"slice-{self.tag}")):
            self.plane.kubectl("delete", kind, name, "--ignore-not-found", "--wait=false")
        self.plane.kubectl("delete", "deviceclass", f"slice-{self.tag}", "--ignore-not-found")
        for space in (self.space, self.other):
            self.plane.kubectl("delete", "namespace", space, "--ignore-not-found", "--wait=false")
        ours = f"-lallotment.dev/tenant in (vision-{self.tag}, speech-{self.tag})"
        self.plane.kubectl("delete", "serviceaccounts", f"-n={ACCESS}", ours)

    def product(self, *manifests: Manifest) -> None:
        """Applies as the product does: its account, its field manager."""
        arguments = ("apply", "--server-side", "--field-manager=allotment", "--force-conflicts", "-f", "-")
        self.plane.kubectl(
            *arguments, input="\n---\n".join(json.dumps(each) for each in manifests), as_admin=False
        )

    def admin(self, *manifests: Manifest) -> None:
        """Applies what the cluster's administrator would."""
        self.plane.kubectl("apply", "-f", "-", input="\n---\n".join(json.dumps(each) for each in manifests))

    def ask(self, who: str, *arguments: str, body: Manifest | None = None) -> Answer:
        """Run kubectl with the token of `member`, `intruder`, `syncer` ... in the tenant's namespace."""
        command = [
            str(self.plane.kubectl_path),
            f"--kubeconfig={self.folder / who}",
            f"--cache-dir={self.folder / 'cache'}",
            f"--namespace={self.space}",
            *arguments,
            *(("-f", "-") if body else ()),
        ]
        text = json.dumps(body) if body else None
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        return Answer(done.returncode == 0, done.stdout + done.stderr)

    def read(self, kind: str, name: str, path: str, space: str = "") -> str:
        """One field as the administrator sees it; empty where it is absent."""
        where = f"--namespace={space or self.space}"
        return self.plane.kubectl("get", kind, name, where, "--ignore-not-found", "-o", f"jsonpath={path}")

    def owner(self, api_version: str, kind: str, name: str) -> Manifest:
        """An owner reference to something of the tenant, as a forger would write it."""
        uid = self.read(kind.lower(), name, "{.metadata.uid}")
        return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}

    def job(self, name: str, seconds: int = 600) -> Manifest:
        """A Job that every rule accepts: it asks for one device of the offer, through the queue."""
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "gpu"}},
            "spec": {"backoffLimit": 0, "template": {"spec": pod_spec(self.offer, seconds)}},
        }

    def kubeconfig(self, who: str, account: str, space: str = ACCESS) -> None:
        """A kubeconfig with a token that the product's own rights get for an account."""
        token = self.plane.kubectl(
            "create", "token", account, f"--namespace={space}", as_admin=space != ACCESS
        ).strip()
        layout = self.plane.layout
        pki.write_kubeconfig(self.folder / who, layout.server, token, layout.pki.cert("ca"))

    def _tenant(self, space: str, tenant: str) -> list[Manifest]:
        text = json.dumps(golden("tenants/tenant"))
        changes = {
            "vision-dddddddddd": space,
            '"allotment.dev/tenant": "vision"': f'"allotment.dev/tenant": "{tenant}"',
            MEMBER: f"{MEMBER}-{space}",
            LEAD: f"{LEAD}-{space}",
        }
        for old, new in changes.items():
            text = text.replace(old, new)
        found: list[Manifest] = json.loads(text)
        return found

    def _quota(self) -> list[Manifest]:
        labels = {"app.kubernetes.io/managed-by": "allotment", "allotment.dev/tenant": f"vision-{self.tag}"}
        name, kueue = f"slice-{self.tag}", "kueue.x-k8s.io/v1beta2"
        text = json.dumps(next(m for m in golden("quotas/offers") if "1g" in json.dumps(m["spec"])))
        offer = json.loads(text.replace("allotment.dev/h100-1g-10gb", self.offer))
        offer["metadata"] |= {"name": name}
        amounts = (("cpu", "32"), ("memory", "256Gi"), (self.offer, "1"))
        resources = [{"name": each, "nominalQuota": amount} for each, amount in amounts]
        group = {
            "coveredResources": [each for each, _ in amounts],
            "flavors": [{"name": name, "resources": resources}],
        }
        selector = {"matchLabels": {"allotment.dev/tenant": f"vision-{self.tag}"}}
        hard = {f"requests.{self.offer}": "40", f"requests.{self.names['not_given']}": "0"}
        inside = {"namespace": self.space, "labels": labels}
        return [
            offer,
            _object(kueue, "ResourceFlavor", {"name": name, "labels": labels}, {"nodeLabels": NODES}),
            _object(
                kueue,
                "ClusterQueue",
                {"name": self.space, "labels": labels},
                {"resourceGroups": [group], "namespaceSelector": selector},
            ),
            _object("v1", "ResourceQuota", inside | {"name": "devices"}, {"hard": hard}),
            _object(kueue, "LocalQueue", inside | {"name": "gpu"}, {"clusterQueue": self.space}),
        ]

    def _people(self) -> None:
        intruder = f"intruder-{self.space}"
        self.admin(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": intruder, "namespace": ACCESS},
            },
            _binding("intruder", self.space, intruder, ACCESS),
        )
        self.kubeconfig("member", f"{MEMBER}-{self.space}")
        self.kubeconfig("lead", f"{LEAD}-{self.space}")
        self.kubeconfig("stranger", f"{MEMBER}-{self.other}")
        self.kubeconfig("intruder", intruder)

    def _standing(self) -> None:
        """One Job runs on the only device; what comes after it waits."""
        assert self.ask("member", "create", body=self.job("running")).accepted
        until(lambda: self.read("job", "running", "{.status.ready}") == "1", "the first Job to run")
        assert self.ask("member", "create", body=self.job("waiting")).accepted
        self.product(self.portal_job())
        labels = {"app": "set"}
        self.admin(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {
                    "name": "set",
                    "namespace": self.space,
                    "labels": {"kueue.x-k8s.io/queue-name": "gpu"},
                },
                "spec": {
                    "replicas": 1,
                    "serviceName": "set",
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": pod_spec(self.offer) | {"restartPolicy": "Always"},
                    },
                },
            }
        )
        until(lambda: bool(self.read("pod", "set-0", "{.spec.schedulingGates}")), "a gated pod")
        pods = self.plane.kubectl("get", "pods", f"-n={self.space}", "-ljob-name=running", "-oname").strip()
        # A busy Kueue makes the entry of the set's pod before that of the Job that came first.
        workload = until(lambda: self._workload_of("waiting"), "the queue's entry of the Job that waits")
        self.names |= {
            "running": "running",
            "waiting": "waiting",
            "portal": "portal-job",
            "set": "set",
            "gated": "set-0",
            "pod": pods.partition("/")[2],
            "workload": workload,
        }

    def _workload_of(self, job: str) -> str:
        """The name of Kueue's Workload of a Job; "" while there is none."""
        names = self.plane.kubectl("get", "workloads", f"-n={self.space}", "-oname").split()
        return next((name.partition("/")[2] for name in names if job in name), "")

    def portal_job(self) -> Manifest:
        text = json.dumps(next(m for m in golden("workloads/job") if m["kind"] == "Job"))
        job: Manifest = copy.deepcopy(json.loads(text))
        job["metadata"] |= {"name": "portal-job", "namespace": self.space}
        limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        memory = limits["memory"]
        limits.clear()
        limits |= {"memory": memory, self.offer: "1"}
        job["spec"]["template"]["spec"]["volumes"] = []
        job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = []
        return job


def _object(api_version: str, kind: str, metadata: Manifest, spec: Manifest) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _binding(name: str, space: str, account: str, account_space: str) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": space},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_space}],
    }
