"""What the chart renders, by the real Helm and without a cluster: structure, never text."""

import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.urls import resolve
from honcho.environ import parse_procfile

from apps.tenants.specs import DOOR_LABELS, DOOR_NAMESPACE
from apps.workloads.kinds.notebook import PORT as NOTEBOOK_PORT
from portal.celery import app
from portal.config import LOOPBACK, Config
from portal.door.app import HEALTH
from tests.chart.helm import (
    CHART,
    LEAST,
    MOST,
    NAMESPACE,
    ROOT,
    SECRETS,
    Document,
    Helm,
    HelmError,
    Values,
    container,
    named,
    pods,
)
from tests.chart.wrong import WRONG

pytestmark = pytest.mark.plane

PARTS = {"allotment-web", "allotment-worker-default", "allotment-beat", "allotment-watcher"}
TRACED = {"allotment-web", "allotment-worker-default", "allotment-worker-urgent"}
LED = {"allotment-beat", "allotment-watcher"}
"""Of which one works and the others wait."""
WITH_A_TOKEN = {"allotment-web", "allotment-worker-default", "allotment-watcher"}


@pytest.mark.parametrize("values", [LEAST, MOST], ids=["least", "most"])
def test_helm_finds_nothing_wrong(helm: Helm, values: Values) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm.lint(values)


@pytest.mark.parametrize(("values", "words"), WRONG, ids=[words for _, words in WRONG])
def test_helm_refuses_wrong_values_where_they_stand(helm: Helm, values: Values, words: str) -> None:
    place = words.partition(":")[0].rstrip("/")
    with pytest.raises(HelmError, match=f"at '{place}"):
        helm.template({**LEAST, **{key: _over(LEAST.get(key), value) for key, value in values.items()}})


def test_what_is_left_out_is_named(helm: Helm) -> None:
    with pytest.raises(HelmError) as refusal:
        helm.template({})
    for place in (
        "secretKey/existingSecret",
        "database/existingSecret",
        "redis/existingSecret",
        "public_url",
    ):
        assert place in str(refusal.value)


def test_another_namespace_is_refused_unless_the_product_runs_beside_no_cluster(helm: Helm) -> None:
    with pytest.raises(HelmError, match="add --namespace allotment-system"):
        helm.template(LEAST, namespace="elsewhere")
    rendered = helm.template(LEAST | {"inCluster": {"enabled": False}}, namespace="elsewhere")
    assert {each["metadata"]["namespace"] for each in rendered} == {"elsewhere"}
    accounts = {pod["spec"]["serviceAccountName"] for pod in pods(rendered).values()}
    assert accounts == {"default"}


def test_the_least_makes_every_part_but_the_door(least: list[Document], most: list[Document]) -> None:
    assert set(named(least, "Deployment")) == PARTS
    assert set(named(most, "Deployment")) == PARTS | {"allotment-worker-urgent", "allotment-door"}
    assert set(named(least, "Job")) == {"allotment-migrate"}
    kinds = {each["kind"] for each in most}
    assert {"Ingress", "HorizontalPodAutoscaler", "PodDisruptionBudget", "ServiceMonitor"} <= kinds
    # Rights, accounts and namespaces come by `kubectl apply -k k8s`; Secrets are the installer's.
    assert not {"Secret", "ServiceAccount", "ClusterRole", "Role", "Namespace"} & kinds
    assert {each["metadata"]["namespace"] for each in most} == {NAMESPACE}


def test_what_runs_is_the_procfiles_word_for_word(most: list[Document]) -> None:
    here = {
        "ALLOTMENT_BIND": "0.0.0.0", "WEB_CONCURRENCY": "4", "ALLOTMENT_HOME": "/tmp",  # noqa: S104, S108
    }  # fmt: skip

    def filled(found: re.Match[str]) -> str:
        return here.get(found[1], found[2])

    wanted = {
        name: re.sub(r"\$\{(\w+):-([^}]*)\}", filled, line).split()
        for name, line in parse_procfile((ROOT / "Procfile").read_text()).processes.items()
    }
    commands = {name: container(pod)["command"] for name, pod in pods(most).items()}
    for name in ("web", "beat", "watcher", "door"):
        assert commands[f"allotment-{name}"] == wanted[name]
    worker = commands["allotment-worker-default"]
    at = worker.index("--queues")
    assert worker[:at] + worker[at + 2 :] == wanted["worker"]
    assert commands["allotment-migrate"] == ["python", "manage.py", "migrate", "--noinput"]


def test_the_workers_take_from_every_queue_of_the_product(least: list[Document]) -> None:
    assert app.conf.task_routes is None, "tasks go to one queue: give the chart's workers the others too"
    command = container(pods(least)["allotment-worker-default"])["command"]
    assert command[command.index("--queues") + 1].split(",") == [app.conf.task_default_queue]


def test_every_part_is_rolled_and_there_are_two_of_each(least: list[Document]) -> None:
    for name, deployment in named(least, "Deployment").items():
        assert deployment["spec"]["strategy"]["type"] == "RollingUpdate", name
        assert deployment["spec"]["replicas"] == 2, name


def test_what_waits_for_a_lease_reaches_the_database_that_gives_it(most: list[Document]) -> None:
    for name in LED:
        assert 5432 in _ports(named(most, "NetworkPolicy")[name]["spec"]["egress"]), name


def test_what_may_not_work_beside_the_next_version_can_be_stopped_for_it(most: list[Document]) -> None:
    for name, deployment in named(most, "Deployment").items():
        spec = deployment["spec"]
        stops = deployment["metadata"]["labels"].get("allotment.dev/stops-for-upgrades")
        assert (stops == "true") == (name in LED or "worker" in name), name
        assert spec["template"]["metadata"]["labels"].get("allotment.dev/stops-for-upgrades") == stops


@pytest.mark.parametrize("beats", [1, 2])
def test_what_stands_in_several_pods_survives_a_drain(helm: Helm, beats: int) -> None:
    rendered = helm.template(MOST | {"beat": {"replicas": beats}})
    budgets = named(rendered, "PodDisruptionBudget")
    several = {
        name for name, each in named(rendered, "Deployment").items() if each["spec"].get("replicas", 2) > 1
    }
    assert set(budgets) == several
    assert ("allotment-beat" in budgets) == (beats > 1)
    assert {each["spec"]["maxUnavailable"] for each in budgets.values()} == {1}


@pytest.mark.parametrize("which", ["least", "most"])
def test_every_pod_is_closed(which: str, request: pytest.FixtureRequest) -> None:
    for name, pod in pods(request.getfixturevalue(which)).items():
        spec, inside = pod["spec"], container(pod)
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["runAsUser"] == 10001, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert inside["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert inside["resources"]["requests"], name
        assert "memory" in inside["resources"]["limits"], name
        assert {"name": "tmp", "mountPath": "/tmp"} in inside["volumeMounts"], name  # noqa: S108
        # A Service called allotment-door would set ALLOTMENT_DOOR_PORT to an address.
        assert spec["enableServiceLinks"] is False, name
        assert spec["automountServiceAccountToken"] is False, name


def test_a_token_is_held_by_what_talks_to_clusters_alone(least: list[Document]) -> None:
    for name, pod in pods(least).items():
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        assert ("in-cluster" in volumes) == (name in WITH_A_TOKEN), name
        account = "allotment-controller" if name in WITH_A_TOKEN else "default"
        assert pod["spec"]["serviceAccountName"] == account, name
        if name in WITH_A_TOKEN:
            files = [
                path
                for source in volumes["in-cluster"]["projected"]["sources"]
                for path in _paths(next(iter(source.values())))
            ]
            assert sorted(files) == ["ca.crt", "kubeconfig", "token"], name


@pytest.mark.parametrize("which", ["least", "most"])
def test_the_product_accepts_the_environment_of_every_pod(
    which: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"least": LEAST, "most": MOST}[which]
    for name, pod in pods(request.getfixturevalue(which)).items():
        variables = container(pod)["env"]
        assert max(Counter(each["name"] for each in variables).values()) == 1, name
        with monkeypatch.context() as patch:
            for each in variables:
                patch.setenv(each["name"], each.get("value") or _of_secret(each))
            known = Config()
        assert known.mode == "production"
        assert known.database_url == SECRETS["database-url"]
        assert known.log_format == "json"
        # Of the parts the portal alone answers at /metrics.
        brought = SECRETS["metrics-token"] if which == "most" and name == "allotment-web" else ""
        assert known.metrics_token == brought, name
        for setting, value in values["settings"].items():
            assert getattr(known, setting) == value, (name, setting)


def test_no_secret_is_written_out(most: list[Document]) -> None:
    for name, pod in pods(most).items():
        hidden = {each["name"] for each in container(pod)["env"] if "valueFrom" in each}
        needed = {"ALLOTMENT_SECRET_KEY", "ALLOTMENT_DATABASE_URL", "ALLOTMENT_REDIS_URL"}
        metrics = {"ALLOTMENT_METRICS_TOKEN"} if name == "allotment-web" else set()
        traced = {"OTEL_EXPORTER_OTLP_HEADERS"} if name in TRACED else set()
        assert hidden == needed | metrics | traced | {"ALLOTMENT_FURTHER"}, name


def test_what_is_traced_knows_the_collector_and_reaches_it(
    least: list[Document], most: list[Document]
) -> None:
    def known(documents: list[Document]) -> dict[str, dict[str, str]]:
        every = {name: container(pod)["env"] for name, pod in pods(documents).items()}
        return {
            name: {each["name"]: each.get("value", "") for each in env if each["name"].startswith("OTEL_")}
            for name, env in every.items()
        }

    assert not any(known(least).values())
    assert {name for name, env in known(most).items() if env} == TRACED
    web = known(most)["allotment-web"]
    assert web["OTEL_EXPORTER_OTLP_ENDPOINT"] == MOST["tracing"]["endpoint"]
    assert (web["OTEL_TRACES_SAMPLER"], web["OTEL_TRACES_SAMPLER_ARG"]) == ("parentbased_traceidratio", "0.1")
    for documents, reached in ((least, set()), (most, TRACED)):
        policies = named(documents, "NetworkPolicy")
        out = {name for name, each in policies.items() if 4318 in _ports(each["spec"]["egress"])}
        assert out == reached


def test_probes_ask_addresses_that_exist_by_a_host_that_is_answered(most: list[Document]) -> None:
    for name, deployment in named(most, "Deployment").items():
        inside = container(deployment["spec"]["template"])
        if not inside.get("ports"):
            continue
        probes = {key: value["httpGet"] for key, value in inside.items() if key.endswith("Probe")}
        assert len(probes) == 3, name
        for probe in probes.values():
            (header,) = probe["httpHeaders"]
            assert header["name"] == "Host"
            assert header["value"] in LOOPBACK
            assert resolve(probe["path"]) if name == "allotment-web" else probe["path"] == HEALTH
    web = container(pods(most)["allotment-web"])
    assert web["readinessProbe"]["httpGet"]["path"] == "/readyz"
    # A database that is away must not restart every portal.
    assert web["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_what_has_no_port_is_asked_whether_its_file_is_fresh(most: list[Document], tmp_path: Path) -> None:
    silent = [
        container(deployment["spec"]["template"])
        for deployment in named(most, "Deployment").values()
        if not container(deployment["spec"]["template"]).get("ports")
    ]
    assert len(silent) >= 3
    asked = {
        str(inside[f"{name}Probe"]["exec"]["command"])
        for inside in silent
        for name in ("startup", "liveness")
    }
    assert len(asked) == 1
    (path,) = {e["value"] for inside in silent for e in inside["env"] if e["name"] == "ALLOTMENT_ALIVE_FILE"}
    file = tmp_path / "alive"
    _, *command = silent[0]["livenessProbe"]["exec"]["command"]
    here = [sys.executable, *(word.replace(path, str(file)) for word in command)]

    def answer() -> int:
        return subprocess.run(here, capture_output=True, check=False).returncode

    assert answer() == 1
    file.touch()
    assert answer() == 0
    os.utime(file, times=(time.time() - 60,) * 2)
    assert answer() == 1


def test_the_door_is_whom_notebooks_and_virtual_clusters_let_in(most: list[Document]) -> None:
    labels = pods(most)["allotment-door"]["metadata"]["labels"]
    assert DOOR_LABELS.items() <= labels.items()
    assert DOOR_NAMESPACE == NAMESPACE
    for pod in pods(most).values():
        assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "allotment"


def test_one_policy_for_each_pod_and_nothing_open_beside_its_port(most: list[Document]) -> None:
    policies = named(most, "NetworkPolicy")
    for name, pod in pods(most).items():
        held = [each for each in policies.values() if _selects(each["spec"]["podSelector"], pod)]
        assert [each["metadata"]["name"] for each in held] == [name]
        (spec,) = (each["spec"] for each in held)
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        opened = [port["containerPort"] for port in container(pod).get("ports", [])]
        rules = spec.get("ingress", [])
        assert [port["port"] for rule in rules for port in rule["ports"]] == opened
        assert all(rule["from"] == MOST["networkPolicy"]["from"] for rule in rules[:1])
    out = {name: _ports(each["spec"]["egress"]) for name, each in policies.items()}
    assert out["allotment-beat"] == {53, 5432, 6379}
    assert out["allotment-migrate"] == {53, 5432}
    assert NOTEBOOK_PORT in out["allotment-door"]
    assert 9090 in out["allotment-worker-default"]


def test_services_lead_to_the_pods_and_ingresses_to_the_services(most: list[Document]) -> None:
    services = named(most, "Service")
    for name in ("allotment-web", "allotment-door"):
        assert _selects({"matchLabels": services[name]["spec"]["selector"]}, pods(most)[name])
    hosts = {
        rule["host"]: rule["http"]["paths"][0]["backend"]["service"]["name"]
        for each in named(most, "Ingress").values()
        for rule in each["spec"]["rules"]
    }
    assert hosts == {"allotment.example.org": "allotment-web", "*.apps.example.net": "allotment-door"}
    (scaler,) = named(most, "HorizontalPodAutoscaler").values()
    assert scaler["spec"]["scaleTargetRef"]["name"] == "allotment-web"
    assert "replicas" not in named(most, "Deployment")["allotment-web"]["spec"]


def test_the_door_listens_at_the_pods_address(most: list[Document]) -> None:
    """Its command says no address: the product reads it."""
    variables = container(pods(most)["allotment-door"])["env"]
    known = {variable["name"]: variable.get("value") for variable in variables}
    assert known["ALLOTMENT_BIND"] == "0.0.0.0"  # noqa: S104
    assert Config.model_fields["door_port"].default == 8001


def test_prometheus_reads_the_portal_by_a_host_that_it_answers_and_with_the_token(helm: Helm) -> None:
    rendered = helm.template(MOST | {"settings": MOST["settings"] | {"hosts": "other.example.org"}})
    (monitor,) = named(rendered, "ServiceMonitor").values()
    service = named(rendered, "Service")["allotment-web"]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert resolve(endpoint["path"]).url_name == "metrics"
    assert endpoint["authorization"]["credentials"] == {"name": "allotment", "key": "metrics-token"}
    (address,) = [each["replacement"] for each in endpoint["relabelings"]]
    variables = {
        each["name"]: each.get("value") for each in container(pods(rendered)["allotment-web"])["env"]
    }
    hosts = str(variables["ALLOTMENT_HOSTS"]).split(",")
    assert hosts == ["other.example.org", address.removesuffix(":80")]
    assert hosts[1] == f"{service['metadata']['name']}.{NAMESPACE}.svc"


def test_the_alerts_are_those_of_the_file_with_the_runbooks_address(most: list[Document]) -> None:
    (rule,) = named(most, "PrometheusRule").values()
    base = MOST["prometheusRule"]["runbookBase"]
    text = (CHART / "alerts.yaml").read_text().replace("runbook_url: docs/", f"runbook_url: {base}docs/")
    assert rule["spec"] == yaml.safe_load(text)["spec"]
    assert f"{base}docs/runbook.md#allotmentgone" in str(rule["spec"])


def test_nobody_reads_metrics_and_nothing_of_an_operator_is_made_unless_asked(least: list[Document]) -> None:
    assert not {each["kind"] for each in least} & {"ServiceMonitor", "PrometheusRule"}
    names = {each["name"] for pod in pods(least).values() for each in container(pod)["env"]}
    assert not names & {"ALLOTMENT_METRICS_TOKEN", "ALLOTMENT_HOSTS"}


def test_a_digest_wins_over_a_tag(most: list[Document], least: list[Document]) -> None:
    assert {container(pod)["image"] for pod in pods(most).values()} == {
        f"registry.example.org/allotment@sha256:{'0' * 64}"
    }
    assert {container(pod)["image"] for pod in pods(least).values()} == {"allotment:0.1.0"}


def test_the_database_is_migrated_before_anything_else_comes(most: list[Document]) -> None:
    (job,) = named(most, "Job").values()
    notes = job["metadata"]["annotations"]
    assert notes["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert "before-hook-creation" in notes["helm.sh/hook-delete-policy"]
    # What it needs must be there before the chart is: Secrets of the installer, nothing that the chart makes.
    made = {each["metadata"]["name"] for each in most if each is not job}
    referred = re.findall(r"'(?:name|secretName)': '([^']+)'", str(job["spec"]["template"]["spec"]))
    assert not made & set(referred)


def _over(known: Any, value: Any) -> Any:
    return known | value if isinstance(known, dict) and isinstance(value, dict) else value


def _paths(source: Document) -> list[str]:
    return [source["path"]] if "path" in source else [item["path"] for item in source["items"]]


def _of_secret(variable: Document) -> str:
    return SECRETS[variable["valueFrom"]["secretKeyRef"]["key"]]


def _selects(selector: Document, pod: Document) -> bool:
    return bool(selector["matchLabels"].items() <= pod["metadata"]["labels"].items())


def _ports(rules: list[Document]) -> set[int]:
    return {port["port"] for rule in rules for port in rule["ports"]}
