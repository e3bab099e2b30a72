"""The services of the Compose file as processes of this machine: Docker's own loader says what they are.
Commands, environment, secrets and health checks are the file's; names of hosts, ports and paths alone are
exchanged.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import binaries
from tests.patience import until
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("web", "worker", "beat", "watcher", "door")
OURS = {"PATH", "HOME", "LANG", "TMPDIR"}
"""What a process needs of the machine that an image would bring."""


def resolve(environment: Path, *profiles: str, folder: Path = ROOT) -> dict[str, Any]:
    """What the Compose file means with this `.env` and these profiles; fails with the loader's words."""
    built = binaries.find(binaries.COMPOSE)
    assert built, "the loader is not built; run `python -m tests.controlplane build` once"
    command = [str(built.path("resolve")), str(folder / "docker-compose.yml"), str(environment), *profiles]
    clean = {name: os.environ[name] for name in OURS if name in os.environ}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@dataclass
class Stack:
    """Resolved services, `home` for what they write, and what stands where on this machine instead, as
    patterns in their order.
    """

    model: dict[str, Any]
    home: Path
    elsewhere: Mapping[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self, name: str) -> dict[str, str]:
        """Of a service, with the secrets that its image would find in /run/secrets."""
        given = {
            key: self.here(name, value or "")
            for key, value in (self.model["services"][name].get("environment") or {}).items()
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        image = {"ALLOTMENT_HOME": str(self.home / "image"), "PATH": path, "HOME": str(self.home)}
        return {**image, **given, "ALLOTMENT_SECRETS": str(self.secrets_of(name))}

    def secrets_of(self, name: str) -> Path:
        """A folder with the secrets of a service, by their names there."""
        folder = self.home / f"{name}-secrets"
        folder.mkdir(exist_ok=True)
        for each in self.model["services"][name].get("secrets") or ():
            text = Path(self.model["secrets"][each["source"]]["file"]).read_text()
            (folder / each["source"]).write_text(self.here(name, text))
        return folder

    def here(self, name: str, text: str) -> str:
        """A text of the file with this machine's names in it."""
        own = {"/tmp/": f"{self.home}/{name}-", "/run/secrets/": f"{self.home}/{name}-secrets/"}  # noqa: S108
        for there, instead in {**own, **self.elsewhere}.items():
            text = re.sub(there, instead, text)
        return text

    def command(self, name: str) -> list[str]:
        """Of a service, or of the image where it names none."""
        return [
            self.here(name, word) for word in self.model["services"][name].get("command") or image_command()
        ]

    def run(self, name: str, *command: str) -> str:
        """`docker compose run --rm NAME COMMAND`; what it printed."""
        words = [sys.executable if word == "python" else word for word in command or self.command(name)]
        done = subprocess.run(
            words, cwd=ROOT, env=self.environment(name), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str) -> None:
        log = (self.home / f"{name}.log").open("ab")
        self.running[name] = subprocess.Popen(
            self.command(name), cwd=ROOT, env=self.environment(name), stdout=log, stderr=log
        )

    def start_proxy(self) -> None:
        """With the file's own configuration."""
        self.secrets_of("proxy")
        conf = self.home / "nginx.conf"
        text = self.here("proxy", self.model["configs"]["proxy"]["content"])
        conf.write_text(
            f"daemon off; pid {self.home}/nginx.pid; error_log {self.home}/nginx.log;\n"
            f"events {{}}\nhttp {{ access_log off; client_body_temp_path {self.home}/body;\n{text}\n}}\n"
        )
        program = shutil.which("nginx") or pytest.fail("no nginx: install nginx-light as .ci/run does")
        self.running["proxy"] = subprocess.Popen([program, "-c", str(conf)])

    def is_healthy(self, name: str) -> bool:
        """What its health check says."""
        test = self.model["services"][name].get("healthcheck", {}).get("test") or image_health()
        words = [self.here(name, word) for word in test[1:]]
        done = subprocess.run(words, env=self.environment(name), capture_output=True, check=False)
        return done.returncode == 0

    def wait(self, *names: str) -> None:
        for name in names:
            until(partial(self.is_healthy, name), f"{name} to be healthy", 60, told=partial(self.log, name))

    def log(self, name: str) -> str:
        path = self.home / f"{name}.log"
        return path.read_text()[-2000:] if path.exists() else ""

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> int:
        process = self.running.pop(name)
        process.send_signal(how)
        return process.wait(30)

    def stop_all(self) -> None:
        for name in list(self.running):
            self.stop(name)


def image_command() -> list[str]:
    """The last CMD of the Dockerfile's product."""
    found: list[str] = json.loads(_instruction("CMD"))
    return found


def image_health() -> list[str]:
    """Its HEALTHCHECK, as Compose writes one."""
    words = _instruction("HEALTHCHECK")
    return ["CMD", *json.loads(words[words.index("CMD") + 4 :])]


def _instruction(name: str) -> str:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    product = text[text.index(" AS product\n") : text.index(" AS demo\n")]
    lines = [line for line in product.splitlines() if line.startswith(f"{name} ")]
    return lines[-1].removeprefix(f"{name} ")


def ports() -> dict[str, int]:
    """Free ones, for what listens."""
    return {name: free_port() for name in ("web", "door", "https", "http")}
