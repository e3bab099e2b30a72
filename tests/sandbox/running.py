"""Starts the sandbox as its users do, in a process of its own, and talks to it over HTTPS."""

from __future__ import annotations

import base64
import json
import signal
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.patience import patient, within

ROOT = Path(__file__).parents[2]
START_SECONDS = 30.0


@dataclass
class Running:
    """A sandbox process and the administrator's HTTP client."""

    folder: Path
    process: subprocess.Popen[bytes]
    http: httpx.Client

    @property
    def kubeconfig(self) -> Path:
        """The product's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def admin(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "admin.kubeconfig"

    def call(
        self, method: str, path: str, body: Any = None, *, media: str = "application/json"
    ) -> httpx.Response:
        """One request as the administrator."""
        content = None if body is None else json.dumps(body)
        return self.http.request(method, path, content=content, headers={"Content-Type": media})

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> int:
        """End the process; its exit code."""
        self.http.close()
        self.process.send_signal(sent)
        return self.process.wait(timeout=patient(20))


def client_of(kubeconfig: Path) -> httpx.Client:
    """An HTTP client for a kubeconfig with inline data."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trust = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    headers = {"Authorization": f"Bearer {user['token']}"}
    return httpx.Client(base_url=cluster["server"], headers=headers, verify=trust, timeout=patient(30))


def start(folder: Path, *words: str) -> Running:
    """Start a sandbox and wait until it answers."""
    command = [sys.executable, "-m", "sandbox", "up", "--dir", str(folder), *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    deadline = within(START_SECONDS)
    while not line.startswith("sandbox ready"):
        assert process.poll() is None, f"the sandbox ended with {process.returncode}: {line}"
        assert time.monotonic() < deadline, "the sandbox did not come up"
        line = process.stdout.readline().decode()
    http = client_of(folder / "admin.kubeconfig")
    while True:
        try:
            if http.get("/readyz").status_code == 200:
                return Running(folder, process, http)
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the sandbox does not answer"
            time.sleep(0.05)
