"""A notebook: a StatefulSet of one pod that serves an IDE, and the Service that names it. Pure.

Not yet run in a container: image, uid, HOME and start follow the Jupyter Docker Stacks' documentation.
"""

from apps.cluster.objects import names
from apps.workloads.manifests import pods
from apps.workloads.manifests.pods import Manifest
from apps.workloads.specs import NOTEBOOK_HOME, Ide, PlacementSpec, WorkloadSpec

CONTROLLER = "StatefulSet"
PORT = 8888
PROXY_NAMESPACE = "allotment-system"
PROXY_LABELS = {"app.kubernetes.io/name": "allotment", "app.kubernetes.io/component": "proxy"}
"""Where the pass-through to workloads runs, and the labels of its pods."""
START = {Ide.JUPYTERLAB: ("start-notebook.py", "--ServerApp.ip=0.0.0.0", f"--ServerApp.port={PORT}")}
"""What each IDE's image is started with, unless the request says otherwise."""


def build(spec: WorkloadSpec, place: PlacementSpec) -> list[Manifest]:
    """RULE: replicas is always 1 and is never scaled to 0.

    Kueue admits a StatefulSet of 0 replicas later on and keeps its quota, so a stop removes it instead; the
    volume claims are objects of their own, not volumeClaimTemplates, and stay.
    """
    stateful_set = pods.manifest("apps/v1", CONTROLLER, place)
    stateful_set["spec"] = {
        "replicas": 1,
        "serviceName": place.object_name,
        "selector": {"matchLabels": pods.selector(place)},
        "template": pods.template(spec, place, _container(spec, place), restart="Always"),
    }
    stateful_set["spec"]["template"]["metadata"]["labels"] |= {names.LABEL_INGRESS: "proxy"}
    return [_door(place), _service(place), pods.queued(stateful_set, spec, place)]


def _container(spec: WorkloadSpec, place: PlacementSpec) -> Manifest:
    container = pods.container(spec, place, home=NOTEBOOK_HOME)
    container["ports"] = [{"name": "ide", "containerPort": PORT, "protocol": "TCP"}]
    container["readinessProbe"] = {"tcpSocket": {"port": "ide"}, "periodSeconds": 5}
    if spec.notebook and not spec.command and not spec.args:
        container["args"] = list(START[spec.notebook.ide])
    return container


def _door(place: PlacementSpec) -> Manifest:
    """Only the proxy reaches the IDE: an IDE's token is no fence against neighbours in the namespace."""
    door = pods.manifest("networking.k8s.io/v1", "NetworkPolicy", place)
    proxy = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": PROXY_NAMESPACE}},
        "podSelector": {"matchLabels": PROXY_LABELS},
    }
    door["spec"] = {
        "podSelector": {"matchLabels": pods.selector(place)},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [proxy], "ports": [{"port": "ide", "protocol": "TCP"}]}],
    }
    return door


def _service(place: PlacementSpec) -> Manifest:
    """Headless: it names the pod and takes no address of the cluster."""
    service = pods.manifest("v1", "Service", place)
    service["spec"] = {
        "clusterIP": "None",
        "selector": pods.selector(place),
        "ports": [{"name": "ide", "port": PORT, "targetPort": "ide", "protocol": "TCP"}],
    }
    return service
