"""The real Helm on the product's chart: what it renders, and a release on a control plane."""

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests import yamls
from tests.controlplane import binaries

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "k8s" / "product"
NAMESPACE, RELEASE = "allotment-system", "allotment"
SECRETS = {
    "secret-key": "k" * 48,
    "database-url": "postgresql://allotment:hidden@postgres.example.org/allotment",
    "redis-url": "rediss://:hidden@redis.example.org:6379/0",
    "metrics-token": "m" * 32,
}
"""What an installer's Secret holds."""

Values = dict[str, Any]
Document = dict[str, Any]

LEAST: Values = {
    **{name: {"existingSecret": "allotment"} for name in ("secretKey", "database", "redis")},
    "settings": {"public_url": "https://allotment.example.org"},
}
"""What nobody can leave out."""

WORKER: Values = {
    "queues": ["celery"],
    "replicas": 1,
    "concurrency": 3,
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
}

MOST: Values = {
    **LEAST,
    "image": {"repository": "registry.example.org/allotment", "digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": ["pull"],
    "metricsToken": {"existingSecret": "allotment"},
    "tracing": {
        "endpoint": "http://collector.monitoring:4318",
        # A key that the Secret of the tests has.
        "headers": {"existingSecret": "allotment", "key": "metrics-token"},
    },
    "secretEnv": {"ALLOTMENT_FURTHER": {"existingSecret": "allotment", "key": "secret-key"}},
    "settings": {
        "public_url": "https://allotment.example.org",
        "apps_url": "https://apps.example.net:8443",
        "door_cluster": "north",
        # As a float it would be written 5.184e+06.
        "deletion_grace_seconds": 5_184_000,
        "telemetry_url": "http://prometheus.monitoring:9090/{cluster}",
        "log_level": "WARNING",
    },
    "kubeconfigs": {"existingSecret": "kubeconfigs"},
    "web": {"processes": 4, "autoscaling": {"enabled": True}},
    "workers": {"urgent": WORKER | {"queues": ["celery", "urgent"]}},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "portal": {"tlsSecret": "portal-tls"},
        "door": {"tlsSecret": "door-tls", "annotations": {"example.org/buffering": "off"}},
    },
    "gateway": {"namespace": "gateways", "name": "people"},
    "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "runbookBase": "https://docs.example.org/"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "priorityClassName": "system-cluster-critical",
    "podAnnotations": {"example.org/note": "kept"},
    "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
    "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/authority"}],
}
"""Every value in use."""


class HelmError(RuntimeError):
    """Helm refused; the message is what it said."""


class Helm:
    """The program with a home of its own; `kubeconfig` leads it to a cluster."""

    def __init__(self, home: Path, kubeconfig: Path | None = None) -> None:
        built = binaries.find(binaries.HELM)
        if built is None:
            raise HelmError("Helm is not built; run `python -m tests.controlplane build` once")
        self.program = built.path("helm")
        self._home = home
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HELM_")},
            **{f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")},
            "KUBECONFIG": str(kubeconfig or home / "none"),
        }

    def run(self, *arguments: str) -> str:
        """What it printed; raises HelmError with what it said."""
        done = subprocess.run(
            [str(self.program), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout

    def on_chart(self, verb: str, values: Values, *arguments: str, namespace: str = NAMESPACE) -> str:
        """`helm lint|template|install|upgrade` of the chart with these values."""
        file = self._home / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        name = [] if verb == "lint" else [RELEASE]
        return self.run(verb, *name, str(CHART), "-n", namespace, "-f", str(file), *arguments)

    def template(self, values: Values, *arguments: str, namespace: str = NAMESPACE) -> list[Document]:
        """What would be made, hooks included, without a cluster."""
        text = self.on_chart(
            "template", values, "--kube-version", _kubernetes(), *arguments, namespace=namespace
        )
        return yamls.documents(text)

    def lint(self, values: Values) -> str:
        """What Helm says of the chart; anything it warns of is refused."""
        return self.on_chart("lint", values, "--strict", "--kube-version", _kubernetes())


def _kubernetes() -> str:
    return binaries.pinned_version(binaries.KUBERNETES)


def named(documents: list[Document], kind: str) -> dict[str, Document]:
    """The documents of a kind, by name."""
    return {each["metadata"]["name"]: each for each in documents if each["kind"] == kind}


def pods(documents: list[Document]) -> dict[str, Document]:
    """The pod of each Deployment and Job, by that one's name."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in documents
        if each["kind"] in ("Deployment", "Job")
    }


def container(pod: Document) -> Document:
    """Its only container."""
    (only,) = pod["spec"]["containers"]
    found: Document = only
    return found
