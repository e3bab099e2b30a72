"""configurable-http-proxy, which stands before every notebook of JupyterHub: what the door is compared with.

It comes from npm into the cache of the tests, in this version. It knows where a host leads and asks nobody
who may come in; JupyterHub's notebooks ask that themselves.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.controlplane.binaries import cache_root
from tests.patience import until
from tests.ports import free_port, listens

PACKAGE, VERSION = "configurable-http-proxy", "5.3.0"


@dataclass(frozen=True)
class NodeProxy:
    """Where it listens, and its process."""

    port: int
    pid: int

    @property
    def memory(self) -> int:
        """Bytes that it holds."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


@contextmanager
def before(hosts: Iterable[str], pod: int) -> Iterator[NodeProxy | None]:
    """One that leads all of these hosts to the port of one pod; None where there is no npm."""
    if not shutil.which("npm"):
        yield None
        return
    port, control, token = free_port(), free_port(), secrets.token_hex(16)
    places = ["--ip=127.0.0.1", f"--port={port}", "--api-ip=127.0.0.1", f"--api-port={control}"]
    command = ["node", str(program()), *places, "--host-routing", "--log-level=error"]
    process = subprocess.Popen(command, env={**os.environ, "CONFIGPROXY_AUTH_TOKEN": token})
    try:
        until(lambda: listens(control), "configurable-http-proxy")
        with httpx.Client(headers={"Authorization": f"token {token}"}, trust_env=False) as client:
            for host in hosts:
                to = {"target": f"http://127.0.0.1:{pod}"}
                client.post(f"http://127.0.0.1:{control}/api/routes/{host}", json=to).raise_for_status()
        yield NodeProxy(port, process.pid)
    finally:
        process.kill()
        process.wait(10)


def program() -> Path:
    """Where npm has put it; it is fetched first where it is not there."""
    folder = cache_root().parent / "npm" / f"{PACKAGE}-{VERSION}"
    program = folder / "node_modules" / PACKAGE / "bin" / PACKAGE
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        subprocess.run(
            ["npm", "install", *quiet, "--prefix", str(folder), f"{PACKAGE}@{VERSION}"], check=True
        )
    return program
