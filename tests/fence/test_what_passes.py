"""What must pass the same rules: honest Jobs by kubectl, what the product renders, controllers, a syncer.

And what an honest Job cannot do: run before its turn.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3

from apps.cluster.objects.names import ANNOTATION_SYNCER
from tests import yamls
from tests.controlplane.plane import CHART, PlaneError
from tests.fence.attempts import legitimate
from tests.fence.scene import ACCESS, NODES, Answer, Manifest, Scene, merged
from tests.golden import golden
from tests.patience import until

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]
SYNCER = "vc-lab"
AGENT = CHART / "agent.yaml"
RUNTIME = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
RENDERED = (
    "workloads/job", "workloads/job-cores", "workloads/notebook", "workloads/notebook-full",
    "workloads/notebook-stopped", "workloads/notebook-private", "workloads/service",
    "workloads/service-plain", "workloads/service-cores", "tenants/registries",
)  # fmt: skip

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
JOB_SETS: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "jobsets.jobset.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/jobset"},
    },
    "spec": {
        "group": "jobset.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "JobSet", "plural": "jobsets", "singular": "jobset"},
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": ANYTHING},
            }
        ],
    },
}
"""JobSet's name and nothing of its content: no controller runs them here."""


def test_a_job_by_kubectl_waits_its_turn_and_then_runs_to_its_end(scene: Scene) -> None:
    """The one device is taken: the second Job waits, whatever its owner tries; it runs after the first."""
    made = scene.ask("member", "create", body=scene.job("honest", seconds=1))
    assert made.accepted, made.words
    assert scene.read("job", "honest", "{.spec.suspend}") == "true"
    nodes = scene.read("pod", scene.names["pod"], "{.spec.nodeSelector}")
    assert json.loads(nodes) == NODES, "what Kueue adds for the offer is accepted"
    for attempt in (
        ("patch", "job", "honest", "--type=merge", '-p={"spec":{"suspend":false}}'),
        ("label", "job", "honest", "kueue.x-k8s.io/queue-name-"),
    ):
        assert not scene.ask("member", *attempt).accepted
        assert not scene.ask("intruder", *attempt).accepted
    assert scene.read("job", "honest", "{.spec.suspend}") == "true"
    assert not _pods(scene, "honest")
    for name in ("running", "waiting"):
        assert scene.ask("member", "delete", "job", name, "--wait=false").accepted
    scene.plane.kubectl("delete", "statefulset", "set", f"-n={scene.space}")
    scene.plane.kubectl("delete", "job", "portal-job", f"-n={scene.space}", "--ignore-not-found")
    until(lambda: scene.read("job", "honest", "{.status.succeeded}") == "1", "the Job's turn and its end")


def test_the_node_agent_comes_to_every_node_with_a_gpu_cordoned_or_not(scene: Scene) -> None:
    """The file as `kubectl apply` takes it (docs/agent.md), and the RuntimeClass of NVIDIA's operator."""
    kubectl = scene.plane.kubectl
    kubectl("apply", "--server-side", "-f", "-", input=json.dumps(RUNTIME))
    with_gpu = kubectl("get", "nodes", "-l", "nvidia.com/gpu.present=true", "-o", "name").split()
    kubectl("cordon", with_gpu[0])
    try:
        kubectl("apply", "--server-side", "-f", str(AGENT))
        listed = ("get", "daemonset/allotment-agent", "-n=allotment-telemetry", "-ojson")
        until(
            lambda: json.loads(kubectl(*listed))["status"].get("numberReady") == len(with_gpu),
            "an agent on each node",
        )
        path = "jsonpath={.items[*].spec.nodeName}"
        placed = kubectl("get", "pods", "-n=allotment-telemetry", "-o", path).split()
        assert sorted(placed) == sorted(name.removeprefix("node/") for name in with_gpu)
    finally:
        kubectl("uncordon", with_gpu[0])
        kubectl("delete", "-f", str(AGENT), "--wait=false", "--ignore-not-found")
        kubectl("delete", "runtimeclass/nvidia")


@pytest.mark.parametrize("name", RENDERED)
def test_what_the_product_renders_is_accepted(scene: Scene, name: str) -> None:
    for manifest in golden(name):
        body = merged(manifest, {"metadata": {"namespace": scene.space}})
        told = _dry(scene, body)
        assert manifest["metadata"]["name"] in told


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"name": "somebody-elses"}}, "allotment-registries"),
        ({"type": "Opaque", "data": {"token": "eA=="}}, "allotment-registries"),
        ({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA==", "tls.key": "eA=="}}, "no other Secret"),
        ({"metadata": {"namespace": "default"}}, "in tenants' namespaces alone"),
    ],
)
def test_of_pull_secrets_the_product_writes_its_own_by_name_and_type(
    scene: Scene, change: Manifest, words: str
) -> None:
    (secret,) = golden("tenants/registries")
    wrong = merged(merged(secret, {"metadata": {"namespace": scene.space}}), change)
    with pytest.raises(PlaneError) as refusal:
        scene.product(wrong)
    assert "allotment-product" in str(refusal.value)
    assert words in str(refusal.value)


@pytest.mark.parametrize("change", [{"type": "Opaque"}, {"metadata": {"namespace": "default"}}])
def test_of_a_workloads_secrets_the_product_writes_its_own_type_in_tenants_namespaces(
    scene: Scene, change: Manifest
) -> None:
    secret = next(m for m in golden("workloads/notebook-secrets") if m.get("type") == "allotment.dev/secrets")
    body = merged(secret, {"metadata": {"namespace": scene.space}})
    assert secret["metadata"]["name"] in _dry(scene, body)
    with pytest.raises(PlaneError) as refusal:
        scene.product(merged(body, change))
    assert "allotment-product" in str(refusal.value)


def test_a_job_set_is_the_products_alone_and_suspended(scene: Scene) -> None:
    """JobSet's controller is exempt: what it makes of somebody's set would be looked at nowhere."""
    scene.plane.kubectl("apply", "-f", "-", input=json.dumps(JOB_SETS))
    scene.plane.kubectl("wait", "--for=condition=Established", f"crd/{JOB_SETS['metadata']['name']}")
    try:
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {
                "name": "tried",
                "namespace": scene.space,
                "labels": {"kueue.x-k8s.io/queue-name": "gpu"},
            },
            "spec": {"suspend": True, "replicatedJobs": []},
        }
        answer = scene.ask("intruder", "create", "--validate=false", body=body)
        assert not answer.accepted
        assert "made by the portal alone" in answer.words
        assert "tried" in _dry(scene, body)
        with pytest.raises(PlaneError) as refusal:
            scene.product(merged(body, {"spec": {"suspend": None}}))
        assert "would run past the quota" in str(refusal.value)
    finally:
        scene.plane.kubectl("delete", "crd", JOB_SETS["metadata"]["name"])


def test_a_tag_is_never_kept_not_even_by_the_product(scene: Scene) -> None:
    notebook = next(m for m in golden("workloads/notebook-private") if m["kind"] == "Pod")
    body = merged(notebook, {"metadata": {"namespace": scene.space}})
    body["spec"]["containers"][0]["image"] = "registry.example/lab:1"
    with pytest.raises(PlaneError) as refusal:
        scene.product(body)
    assert "set imagePullPolicy to Always" in str(refusal.value)


def test_a_pod_of_the_product_is_accepted_and_kueue_takes_it_in_hand(scene: Scene) -> None:
    notebook = next(m for m in golden("workloads/notebook") if m["kind"] == "Pod")
    name = notebook["metadata"]["name"]
    body = merged(notebook, {"metadata": {"namespace": scene.space}})
    limits = body["spec"]["containers"][0]["resources"]["limits"]
    limits |= {scene.offer: "1"}
    for other in [key for key in limits if "/" in key and key != scene.offer]:
        del limits[other]
    scene.product(body)
    # Its gate may be gone by now; the mark stays.
    assert scene.read("pod", name, r"{.metadata.labels.kueue\.x-k8s\.io/managed}") == "true"
    scene.plane.kubectl("delete", "pod", name, f"-n={scene.space}", "--wait=false")
    with pytest.raises(PlaneError) as refusal:
        scene.product(merged(body, {"metadata": {"namespace": "default"}}))
    assert "in tenants' namespaces alone" in str(refusal.value)


def test_a_job_that_pod_security_refuses_gets_no_pod_and_says_why(scene: Scene) -> None:
    """Pod Security judges pods, not Jobs: such a Job is held, and its events name the standard."""
    bad = scene.job("privileged")
    container = bad["spec"]["template"]["spec"]["containers"][0]
    container["securityContext"] = {"privileged": True}
    del container["resources"]["limits"]
    made = scene.ask("member", "create", body=bad)
    assert "violate PodSecurity" in made.words, "kubectl warns at once"
    until(
        lambda: (
            "violates PodSecurity"
            in scene.plane.kubectl("get", "events", f"-n={scene.space}", "-o=jsonpath={..message}")
        ),
        "the event that says why",
    )
    assert not _pods(scene, "privileged")
    assert scene.ask("member", "delete", "job", "privileged", "--wait=false").accepted


def test_a_syncer_sets_owners_and_its_pods_go_through_the_queue(scene: Scene) -> None:
    """Only the account that the namespace names, only there; what the virtual cluster's people did not know
    of the rules is put on, and what breaks them is refused.
    """
    space, account = scene.other, f"system:serviceaccount:{scene.other}:{SYNCER}"
    scene.admin(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SYNCER, "namespace": space}},
        _bound(space, "syncer", "cluster-admin", SYNCER, space),
    )
    scene.kubeconfig("syncer", SYNCER, space)
    pod = _as_synced(legitimate("pod", scene.offer))
    before = _synced(scene, pod)
    assert not before.accepted
    assert "ValidatingAdmissionPolicy 'allotment-" in before.words
    scene.plane.kubectl("annotate", "namespace", space, f"allotment.dev/vcluster-syncer={account}")
    until(lambda: _synced(scene, pod).accepted, "the annotation to be seen", seconds=10)
    made = json.loads(scene.ask("syncer", "create", "-ojson", f"--namespace={space}", body=pod).words)
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu"
    assert made["metadata"]["ownerReferences"], "which others may not set"
    assert {"name": "kueue.x-k8s.io/admission"} in made["spec"]["schedulingGates"]
    assert (made["spec"]["automountServiceAccountToken"], made["spec"]["serviceAccountName"]) == (
        False,
        "default",
    )
    assert [each["imagePullPolicy"] for each in made["spec"]["containers"]] == ["Always"]
    tricky = merged(pod, {"spec": {"schedulerName": "mine"}})
    assert "allotment-plain-pods" in _synced(scene, tricky).words
    forged = merged(pod, {"metadata": {"labels": {"allotment.dev/uid": "theirs"}}})
    assert "allotment-no-forgery" in _synced(scene, forged).words


SHELL = "door-shell"


@pytest.mark.parametrize("way", ["exec", "portforward"])
def test_beside_a_virtual_cluster_members_and_the_product_enter_pods_of_workloads_alone(
    scene: Scene, way: str
) -> None:
    """By their names, which are all that the API server tells a rule of whom somebody enters: for those that
    pass, it goes on to look for the pod.
    """
    space, account = scene.other, f"{SHELL}-{scene.other}"
    made = {"name": account, "namespace": ACCESS}
    scene.admin(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": made},
        _bound(space, SHELL, "allotment-tenant-shell", account, ACCESS),
    )
    syncer = f"system:serviceaccount:{space}:{SYNCER}"
    scene.plane.kubectl("annotate", "--overwrite", "namespace", space, f"{ANNOTATION_SYNCER}={syncer}")
    scene.kubeconfig("shell", account)
    askers = (scene.folder / "shell", *((scene.plane.kubeconfig,) if way == "portforward" else ()))
    # What people call a workload is before the mark; controllers put theirs behind it.
    workload = golden("workloads/service")[-1]["metadata"]["name"]
    entered = (workload, f"{workload}-0", f"{workload}-7d9c6b8f5d-x2k4p")
    shut = (
        "virtual-0",
        "virtual-12",
        f"{workload}-0-x-default-x-virtual",
        "coredns-75c9-x-kube-system-x-virtual",
    )

    refused = partial(_entered, scene, scene.folder / "shell", space, "virtual-0", way)
    until(lambda: "allotment-shells" in refused(), "the annotation to be seen", seconds=10)
    for asker in askers:
        for pod in shut:
            assert "never its control plane" in _entered(scene, asker, space, pod, way)
        for pod in entered:
            assert f'pods "{pod}" not found' in _entered(scene, asker, space, pod, way)
    plain = _entered(scene, scene.folder / "member", scene.space, "virtual-0", way)
    assert 'pods "virtual-0" not found' in plain, "where there is no virtual cluster it is a name as any"


def _entered(scene: Scene, asker: Path, space: str, pod: str, way: str) -> str:
    """What the API server answers to whoever enters it; kubectl would look at the pod first."""
    query = "command=true&stdout=true" if way == "exec" else "ports=8443"
    config = json.loads(json.dumps(yamls.document(asker.read_text())))
    server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    pool: Any = urllib3.PoolManager(cert_reqs="CERT_NONE")
    urllib3.disable_warnings()
    answer = pool.request(
        "POST", f"{server['server']}/api/v1/namespaces/{space}/pods/{pod}/{way}?{query}",
        headers={"Authorization": f"Bearer {user['token']}"},
    )  # fmt: skip
    return str(answer.json()["message"])


def _as_synced(pod: Manifest) -> Manifest:
    """As a syncer writes one whose author knew nothing of queues here."""
    uid = "0199f3c2-0000-7000-8000-000000000009"
    owner = {"apiVersion": "v1", "kind": "Service", "name": "lab", "uid": uid}
    pod["metadata"] |= {"ownerReferences": [owner], "labels": {"app": "theirs"}}
    pod["spec"] |= {"automountServiceAccountToken": True, "serviceAccountName": "vc-workload-lab"}
    container = pod["spec"]["containers"][0]
    container["imagePullPolicy"] = "IfNotPresent"
    del container["resources"]["limits"]
    return pod


def test_a_stranger_sees_and_makes_nothing_here(scene: Scene) -> None:
    for attempt in (
        ("get", "pods"),
        ("get", "jobs"),
        ("get", "secrets"),
        ("get", "events"),
        ("auth", "can-i", "--list"),
    ):
        answer = scene.ask("stranger", *attempt)
        assert "forbidden" in answer.words or attempt[0] == "auth", answer.words
    made = scene.ask("stranger", "create", body=scene.job("smuggled"))
    assert "forbidden" in made.words


def test_a_lead_looks_at_the_fence_and_changes_none_of_it(scene: Scene) -> None:
    for kind in ("resourcequotas", "limitranges", "networkpolicies", "rolebindings", "localqueues"):
        assert scene.ask("lead", "get", kind).accepted
        assert scene.ask("lead", "auth", "can-i", "delete", kind).words.startswith("no")


def _synced(scene: Scene, pod: Manifest) -> Answer:
    return scene.ask("syncer", "create", "--dry-run=server", f"--namespace={scene.other}", body=pod)


def _dry(scene: Scene, body: Manifest) -> str:
    arguments = ("apply", "--server-side", "--field-manager=allotment", "--dry-run=server", "-f", "-")
    return scene.plane.kubectl(*arguments, input=json.dumps(body), as_admin=False)


def _pods(scene: Scene, job: str) -> str:
    return scene.plane.kubectl("get", "pods", f"-n={scene.space}", f"-ljob-name={job}", "-oname").strip()


def _bound(space: str, name: str, role: str, account: str, home: str) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": space},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
    }
