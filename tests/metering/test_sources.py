"""The sandbox's exporters, read directly and through a real Prometheus."""

import base64
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.metering.models import Device, Sample, TelemetryIssue
from apps.metering.telemetry.rules.sources.prometheus import SETTLE, Believed, Prometheus
from apps.metering.telemetry.rules.sources.reading import micros
from apps.metering.telemetry.rules.sources.web import Access, Web
from apps.metering.telemetry.services import polling
from tests.metering.scripted import (
    STEP,
    telemetry_settings,
)
from tests.patience import patient, within
from tests.ports import free_port
from tests.sandbox import running as sandboxes


@pytest.fixture
def configured(settings: Any) -> Iterator[Any]:
    """Sets settings of telemetry."""
    with telemetry_settings(settings) as configure:
        yield configure


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sandboxes.Running]:
    """The laptop fleet, with a pod on its shared GPUs."""
    found = sandboxes.start(tmp_path_factory.mktemp("sandbox"), "--fleet", "laptop")
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shared-0", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {
            "limits": {"nvidia.com/gpu.shared": "1"}}}]},
    }  # fmt: skip
    answer = found.call("POST", "/api/v1/namespaces/default/pods", pod)
    assert answer.status_code == 201, answer.text
    yield found
    found.stop()


@pytest.mark.programs
@pytest.mark.django_db
def test_the_simulated_cluster_is_found_by_its_own_address(
    cluster: Cluster, sandbox: sandboxes.Running, configured: Any
) -> None:
    cluster.is_simulated, cluster.kubeconfig_path = True, str(sandbox.kubeconfig)
    now = timezone.now()
    assert polling.read_telemetry(cluster, now=now).stored >= 13
    assert not TelemetryIssue.objects.exists()
    assert Device.objects.filter(gpu_instance__gte=0).exists()
    later = now + timedelta(seconds=40)
    stored = polling.read_telemetry(cluster, now=later).stored
    assert stored >= 13
    assert Sample.objects.count() == Device.objects.count() * 2


CONFIGURATION = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- &job
  job_name: dcgm-exporter
  scheme: https
  tls_config: {{ca_file: {ca}}}
  http_sd_configs: [{{url: "{server}/fleet/targets", tls_config: {{ca_file: {ca}}}}}]
  relabel_configs: &relabel
  - {{source_labels: [__address__], target_label: pod, replacement: "exporter-of-$1"}}
  - {{target_label: namespace, replacement: gpu-operator}}
  - {{target_label: __address__, replacement: "{address}"}}
- <<: *job
  job_name: forger
  relabel_configs:
  - {{target_label: job, replacement: forger}}
  - {{target_label: __address__, replacement: "{address}"}}
"""


@pytest.fixture
def real_prometheus(sandbox: sandboxes.Running, tmp_path: Path) -> Iterator[str]:
    """Debian's Prometheus, scraping the sandbox's exporters once a second, and a forger's job."""
    program = shutil.which("prometheus")
    if program is None:
        # The gate installs it: there, a suite without it is no suite.
        assert not os.environ.get("ALLOTMENT_GATE"), "prometheus is missing"
        pytest.skip("There is no prometheus: apt-get install prometheus")
    server, authority = _trust(sandbox)
    (tmp_path / "ca.pem").write_text(authority)
    address = server.removeprefix("https://")
    config = CONFIGURATION.format(ca=tmp_path / "ca.pem", server=server, address=address)
    (tmp_path / "prometheus.yml").write_text(config)
    port = free_port()
    command = [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
               f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]  # fmt: skip
    process = subprocess.Popen(command)
    url = f"http://127.0.0.1:{port}"
    try:
        _until_scraped(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=patient(20))


def _trust(sandbox: sandboxes.Running) -> tuple[str, str]:
    known = yaml.safe_load(sandbox.kubeconfig.read_text())["clusters"][0]["cluster"]
    return known["server"], base64.b64decode(known["certificate-authority-data"]).decode()


def _until_scraped(url: str, process: "subprocess.Popen[bytes]") -> None:
    query = "min(count_over_time(DCGM_FI_PROF_SM_ACTIVE[1m]))"
    deadline = within(60)
    while time.monotonic() < deadline:
        assert process.poll() is None, "prometheus ended"
        try:
            found = httpx.get(f"{url}/api/v1/query", params={"query": query}).json()["data"]["result"]
        except (httpx.HTTPError, KeyError, ValueError):
            found = []
        if found and float(found[0]["value"][1]) >= 4:
            return
        time.sleep(0.5)
    raise AssertionError("prometheus scraped nothing")


@pytest.mark.exhaustive
@pytest.mark.prometheus
@pytest.mark.django_db
def test_a_real_prometheus_gives_what_the_exporters_said(
    cluster: Cluster, sandbox: sandboxes.Running, real_prometheus: str, configured: Any
) -> None:
    configured(source="prometheus", url=real_prometheus, namespace="gpu-operator", lookback_hours=1)
    now = timezone.now() + SETTLE
    read = polling.read_telemetry(cluster, now=now)
    devices = Device.objects.count()
    assert devices == len({(s["UUID"], s.get("GPU_I_ID")) for s in _told(real_prometheus)}) >= 13
    assert read.stored >= 3 * devices
    assert read.refused == 0
    issues = {issue.kind: issue.message for issue in TelemetryIssue.objects.all()}
    assert set(issues) == {"foreign-series"}
    assert 'Job "forger"' in issues["foreign-series"]
    assert polling.read_telemetry(cluster, now=now).stored == 0
    for sample in Sample.objects.select_related("device").filter(device__gpu_instance=-1)[:20]:
        assert sample.memory_total_mib is not None
        assert sample.sm_active is not None
        assert _at(real_prometheus, sample) == sample.power_mw
    source = Prometheus(real_prometheus, Web(Access()), Believed("dcgm-exporter", "gpu-operator"), STEP)
    pods = {p for b in source.read(now - timedelta(minutes=5), now) for r in b.every() for p in r.device.pods}
    assert pods == {("default", "shared-0")}


def _told(url: str) -> list[dict[str, str]]:
    answer = httpx.get(
        f"{url}/api/v1/series", params={"match[]": 'DCGM_FI_DEV_POWER_USAGE{job="dcgm-exporter"}'}
    )
    found: list[dict[str, str]] = answer.json()["data"]
    return found


def _at(url: str, sample: Sample) -> int:
    """Prometheus' own word on a device's power at that very moment, in milliwatts."""
    query = f'DCGM_FI_DEV_POWER_USAGE{{job="dcgm-exporter",UUID="{sample.device.uuid}"}}'
    answer = httpx.get(
        f"{url}/api/v1/query", params={"query": query, "time": f"{micros(sample.ts) / 1e6:.3f}"}
    )
    return round(float(answer.json()["data"]["result"][0]["value"][1]) * 1000)
