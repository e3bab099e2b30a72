"""An installation with two of every part: its processes, its servers, and the balancer before its web. A node
agent over a simulated driver stands beside it, one GPU server that the product reads.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from honcho.environ import parse_procfile

from tests import services
from tests.controlplane.plane import ControlPlane
from tests.logs import OF_PLANE, heard, of_folder
from tests.patience import until
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
COUNTS = {"web": 2, "worker": 2, "beat": 2, "watcher": 2, "door": 1, "agent": 1}
LEAVES_SECONDS = 5.0
"""From when nobody new is led to a web process until it is told to end: the chart's preStop."""
ENDS_SECONDS = 60.0
FRESH_SECONDS = 30.0
"""How lately a part that listens to nobody has touched its file, as the chart's probe wants it."""
BROKER_LOST = re.compile(r"consumer: Connection to broker lost.*?\nTraceback .*?(?=\n\[|\Z)", re.DOTALL)
Name = tuple[str, int]
"""A part and which of it: ("web", 1)."""


@dataclass
class Stack:
    """`code` is the checkout whose processes are started from now on; those that run keep their own.

    `retries`: the balancer asks the other web process where one does not answer, as balancers usually do.
    Without it every request that meets an ending process is seen.
    """

    home: Path
    plane: ControlPlane
    retries: bool = True
    code: Path = ROOT
    database: str = ""
    redis: str = ""
    running: dict[Name, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[Name, int] = field(default_factory=dict)

    @property
    def names(self) -> list[Name]:
        """Every process, by parts."""
        return [(part, number) for part, count in COUNTS.items() for number in range(1, count + 1)]

    @property
    def url(self) -> str:
        """Where people and programs come in."""
        return f"http://127.0.0.1:{self.ports['balancer', 1]}"

    def up(self) -> None:
        """Servers, tables, processes, balancer, and the demo's people with quota for all that there is."""
        self.database, self.redis = services.postgres(self.home), services.redis(self.home)
        self.ports |= {name: free_port() for name in (*self.names, ("balancer", 1)) if name[0] not in ALIVE}
        (self.home / "static-root").mkdir()
        self.use(self.code)
        for name in self.names:
            self.start(name)
        for name in self.names:
            self.wait(name)
        self._balance(self.webs)
        self.manage("seed_demo", "--kubeconfig", str(self.plane.kubeconfig), "--url", self.url)

    def use(self, code: Path) -> None:
        """From now on; its tables and static files first, as the chart's Job and the image bring them."""
        self.code = code
        self.manage("migrate", "--verbosity", "0")
        self.manage("collectstatic", "--noinput", "--verbosity", "0")

    def down(self) -> None:
        """End all of it, what is paused too."""
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.running.values():
            process.wait(ENDS_SECONDS)
        services.down(self.home)

    @property
    def webs(self) -> list[Name]:
        """Those that the balancer knows."""
        return [name for name in self.names if name[0] == "web"]

    def token(self, username: str) -> str:
        """Of one of the demo's people."""
        tokens: dict[str, str] = json.loads((self.home / "tokens.json").read_text())
        return tokens[username]

    def manage(self, *words: str) -> str:
        """`manage.py` of the present code; its output."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=self.code, env=self.environment(("web", 1)), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def environment(self, name: Name) -> dict[str, str]:
        """As an installation has it; each process has its own port, or its own file to touch."""
        part, number = name
        env = {key: value for key, value in os.environ.items() if not key.startswith("ALLOTMENT_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env |= {
            "ALLOTMENT_HOME": str(self.home),
            "ALLOTMENT_DEMO": "1",
            "ALLOTMENT_DATABASE_URL": self.database,
            "ALLOTMENT_REDIS_URL": self.redis,
            "ALLOTMENT_TRUSTED_PROXIES": "127.0.0.0/8",
            "ALLOTMENT_DOOR_PORT": str(self.ports["door", 1]),
            "ALLOTMENT_TELEMETRY_SOURCE": "agent",
            "ALLOTMENT_TELEMETRY_URL": f"http://127.0.0.1:{self.ports['agent', 1]}/metrics",
            "ALLOTMENT_TELEMETRY_STEP_SECONDS": "5",
            "PATH": path,
            "PYTHONUNBUFFERED": "1",
        }
        if part == "web":
            env["ALLOTMENT_PORT"] = str(self.ports[name])
        if part in ALIVE:
            env["ALLOTMENT_ALIVE_FILE"] = str(self._alive(name))
        if part == "beat":
            own = self.home / f"beat-{number}"
            own.mkdir(exist_ok=True)
            env["ALLOTMENT_HOME"] = str(own)
        return env

    def start(self, name: Name) -> None:
        """One process, by the Procfile of its code; a worker and its pool are a group."""
        self._alive(name).unlink(missing_ok=True)
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {self._commands[name[0]]}"],
                cwd=self.code, env=self.environment(name), stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def wait(self, name: Name) -> None:
        """Until its probe says that it is ready."""
        until(lambda: self.is_ready(name), f"{name} to be ready", 120, told=lambda: self.said(name))

    def is_ready(self, name: Name) -> bool:
        """What the chart's probe says."""
        if name[0] in ALIVE:
            file = self._alive(name)
            return file.exists() and time.time() - file.stat().st_mtime < FRESH_SECONDS
        path = {"web": "/readyz", "door": "/.allotment/health", "agent": "/healthz"}[name[0]]
        try:
            urllib.request.urlopen(f"http://localhost:{self.ports[name]}{path}", timeout=5).close()
        except OSError:
            return False
        return True

    def end(self, name: Name) -> None:
        """As the cluster ends a pod: nobody new is led to it, then SIGTERM, and its own time to finish."""
        if name[0] == "web":
            self._balance([other for other in self.webs if other != name])
            time.sleep(LEAVES_SECONDS)
        process = self.running.pop(name)
        process.terminate()
        process.wait(ENDS_SECONDS)

    def restart(self, name: Name) -> None:
        """As a rollout does it, with the present code: back when it is ready, and led to again."""
        self.end(name)
        self.start(name)
        self.wait(name)
        if name[0] == "web":
            self._balance(self.webs)

    def roll(self) -> None:
        """Every process, one after the other."""
        for name in self.names:
            self.restart(name)

    def kill(self, name: Name) -> None:
        """SIGKILL to it and its pool, and nobody tells the balancer."""
        process = self.running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(ENDS_SECONDS)

    def log(self, name: Name) -> Path:
        """Of a process, over all its lives."""
        return self.home / f"{name[0]}-{name[1]}.log"

    def said(self, name: Name) -> str:
        """The end of its log."""
        return self.log(name).read_text()[-2000:]

    def tracebacks(self) -> dict[Name, str]:
        """The first in each log, but for Celery's consumer when Redis goes."""
        logs = {name: BROKER_LOST.sub("", self.log(name).read_text()) for name in self.names}
        parts = {name: text.partition("Traceback") for name, text in logs.items()}
        return {name: before[-500:] + after[:2500] for name, (before, there, after) in parts.items() if there}

    @property
    def _commands(self) -> dict[str, str]:
        agent = f"python -m tests.agent.live 8 --bind 127.0.0.1 --port {self.ports['agent', 1]}"
        return {**parse_procfile((self.code / "Procfile").read_text()).processes, "agent": agent}

    def _alive(self, name: Name) -> Path:
        return self.home / f"{name[0]}-{name[1]}.alive"

    def _balance(self, webs: list[Name]) -> None:
        """Lead to these; connections that are at work stay with whom they have."""
        servers = " ".join(f"server 127.0.0.1:{self.ports[web]} max_fails=0;" for web in webs)
        conf = self.home / "nginx.conf"
        conf.write_text(
            BALANCER.format(
                home=self.home,
                servers=servers,
                port=self.ports["balancer", 1],
                retries="error timeout" if self.retries else "off",
            )
        )
        program = shutil.which("nginx")
        assert program, "no nginx: apt-get install nginx-light"
        if ("balancer", 1) not in self.running:
            self.running["balancer", 1] = subprocess.Popen([program, "-c", str(conf)])
        else:
            subprocess.run([program, "-c", str(conf), "-s", "reload"], check=True)


ALIVE = ("worker", "beat", "watcher")
"""The parts that touch a file instead of listening."""

BALANCER = """daemon off; pid {home}/nginx.pid; error_log {home}/nginx.log;
events {{}}
http {{
  access_log off; client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
  upstream web {{ {servers} }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://web; proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 1d;
      proxy_next_upstream {retries};
      proxy_set_header Host $http_host; proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }}
  }}
}}
"""


@contextmanager
def standing(home: Path, *, retries: bool = True, code: Path = ROOT) -> Iterator[Stack]:
    """A stack that is up, beside a control plane of its own with 168 slices, and is taken down whatever
    happens.
    """
    with ControlPlane(home / "plane", fleet_name="wide") as plane:
        stack = Stack(home, plane, retries, code)
        try:
            of_plane = partial(of_folder, plane.folder / "logs")
            with heard(of_plane, OF_PLANE), heard(partial(of_folder, home)):
                stack.up()
                yield stack
        finally:
            stack.down()
