"""What a simulated container says and answers: log lines by behaviour, and a few commands for exec.

Deterministic in time. Never runs anything on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from sandbox.api.cluster.simulated import Cluster
from sandbox.api.meta.objects import Obj, dig, parse_time
from sandbox.fleet import behaviours
from sandbox.fleet.behaviours import Behaviour, Truth
from sandbox.fleet.plant import stored_fleet
from sandbox.fleet.telemetry import Reading, Telemetry
from sandbox.fleet.walk import unit

_NOT_SIMULATED = 127
_STEP_SECONDS = 10
_LINES = {
    Behaviour.NOTEBOOK: "[I {clock} ServerApp] 200 GET /api/kernels (127.0.0.1) {ms:.2f}ms",
    Behaviour.INFERENCE: 'INFO:     10.0.0.{peer}:41234 - "POST /v1/completions HTTP/1.1" 200 OK',
    Behaviour.SLOW_START: "INFO loading checkpoint shards: {percent:.0f}%",
    Behaviour.IDLE_HOARDER: "waiting for input",
    Behaviour.KEEPALIVE: "keepalive: launched 1 kernel",
    Behaviour.LEAK: "step {step} | loss {loss:.4f} | allocated grows",
    Behaviour.CRASH_LOOP: "initialising CUDA context",
}
Answer = tuple[str, str, int]
"""What a command writes, what it says of its errors, and its exit code."""
SHELLS = ("sh", "bash", "-l", "-i")
_ENTER, _BACKSPACE, _ABORT, _END = "\r", "\x7f", "\x03", "\x04"
GREETING = "A simulated shell: nothing runs here. Try `help`.\r\n"
HELP = "hostname, env, echo, pwd, whoami, date, nvidia-smi, true, exit: everything else is not simulated."
_TRAINING = "step {step} | loss {loss:.4f} | {rate:.1f} samples/s"


class Logs:
    """pods/log for simulated containers: a start line, one line every 10 s, and the last words."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def lines(
        self, pod: Obj, container: str, start: datetime, end: datetime
    ) -> Iterator[tuple[datetime, str]]:
        """Lines written in [start, end), oldest first."""
        status: Obj = next(
            (s for s in dig(pod, "status", "containerStatuses", default=[]) if s["name"] == container), {}
        )
        state = status.get("state") or {}
        run = state.get("running") or state.get("terminated") or dig(status, "lastState", "terminated")
        if not run or not run.get("startedAt"):
            return
        begun = parse_time(run["startedAt"])
        over = parse_time(run["finishedAt"]) if run.get("finishedAt") else None
        told = behaviours.truth_of(self._seed, pod)
        for moment, text in _story(told, begun, min(end, over) if over else end, start):
            if start <= moment < end:
                yield moment, text
        if over is not None and start <= over < end:
            yield over, _last_words(told, int(run.get("exitCode") or 0))


def _story(told: Truth, begun: datetime, end: datetime, start: datetime) -> Iterator[tuple[datetime, str]]:
    yield begun, f"starting {told.behaviour.value} workload (simulated)"
    first = max(1, math.floor((start - begun).total_seconds() / _STEP_SECONDS))
    step = first
    while (moment := begun + timedelta(seconds=step * _STEP_SECONDS)) < end:
        yield moment, _line(told, step, moment)
        step += 1


def _last_words(told: Truth, code: int) -> str:
    life = behaviours.life(told, finite=True)
    if life.exit_code == 0 and code:
        return f"RuntimeError: a simulated failure (exit code {code})"
    return life.last_words if code and life.last_words else "done"


def _line(told: Truth, step: int, moment: datetime) -> str:
    draw = unit(told.key, 40_000 + step)
    template = _LINES.get(told.behaviour, _TRAINING)
    ready = told.values.get("ready_after", 1.0)
    if told.behaviour is Behaviour.SLOW_START and step * _STEP_SECONDS >= ready:
        template = _LINES[Behaviour.INFERENCE]
    return template.format(
        step=step * 25,
        loss=2.5 * math.exp(-step / 400) + 0.05 * draw,
        rate=200 + 40 * draw,
        clock=moment.strftime("%Y-%m-%d %H:%M:%S"),
        ms=1 + 20 * draw,
        peer=int(2 + 250 * draw),
        percent=min(100.0, 100 * step * _STEP_SECONDS / ready),
    )


class Exec:
    """pods/exec: hostname, env, echo, pwd, whoami, date and nvidia-smi are answered; the rest is not
    simulated.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._seed = seed

    def shell(
        self, pod: Obj, container: str, command: list[str], now: Callable[[], datetime], *, is_terminal: bool
    ) -> Shell | None:
        """A shell, where the command is one: with a terminal, or one that reads its commands."""
        line = command[2].split() if command[:2] == ["sh", "-c"] and len(command) == 3 else command
        if not is_terminal and not (set(line) <= set(SHELLS) or line[:1] == ["exec"]):
            return None
        return Shell(
            lambda words: self.run(pod, container, words, now()),
            pod["metadata"]["name"],
            is_terminal=is_terminal,
        )

    def run(self, pod: Obj, container: str, command: list[str], now: datetime) -> tuple[str, str, int]:
        """stdout, stderr and exit code of one command."""
        words = (
            command[2].split()
            if command[:2] in (["sh", "-c"], ["bash", "-c"]) and len(command) == 3
            else command
        )
        name = (words or [""])[0].rpartition("/")[2]
        simple = {
            "hostname": pod["metadata"]["name"],
            "whoami": "user",
            "pwd": "/home/user",
            "date": now.strftime("%a %b %d %H:%M:%S UTC %Y"),
            "echo": " ".join(words[1:]),
            "env": "\n".join(f"{k}={v}" for k, v in sorted(_environment(pod, container).items())),
            "true": "",
        }
        if name in simple:
            return f"{simple[name]}\n" if simple[name] else "", "", 0
        if name == "nvidia-smi":
            return self._smi(pod, now)
        return "", f"{name or 'command'}: not simulated in the sandbox\n", _NOT_SIMULATED

    def _smi(self, pod: Obj, now: datetime) -> tuple[str, str, int]:
        mine = readings_of(self._cluster, self._seed, pod, now)
        if not mine:
            return "", "No devices were found\n", 6
        return "".join(_smi_row(index, reading) for index, reading in enumerate(mine)), "", 0


def readings_of(cluster: Cluster, seed: int, pod: Obj, now: datetime) -> list[Reading]:
    """What the devices of a pod read."""
    fleet = stored_fleet(cluster)
    node = pod["spec"].get("nodeName", "")
    boards = Telemetry(cluster.system, fleet, seed).boards(node, now) if fleet else []
    uid = pod["metadata"]["uid"]
    return [r for b in boards for r in b.readings if r.holder and r.holder.pod["metadata"]["uid"] == uid]


def _smi_row(index: int, reading: Reading) -> str:
    name = reading.device.gpu.model.product_name
    instance = reading.device.instance
    kind = f" MIG {instance.placement.profile.name}" if instance else ""
    busy = "N/A" if instance else f"{100 * reading.used.busy:.0f}%"
    memory = f"{reading.used.memory_mib:.0f}MiB / {reading.device.memory_mib}MiB"
    return f"GPU {index}: {name}{kind} | memory {memory} | GPU-Util {busy} | simulated\n"


def _environment(pod: Obj, container: str) -> dict[str, str]:
    spec: Obj = next((c for c in pod["spec"]["containers"] if c["name"] == container), {})
    own = {e["name"]: e.get("value", "") for e in spec.get("env") or ()}
    return {"HOSTNAME": pod["metadata"]["name"], "HOME": "/home/user", **own}


class Shell:
    """Takes what is typed, answers what is to be seen. With a terminal it echoes, prompts and greets."""

    def __init__(self, run: Callable[[list[str]], Answer], name: str, *, is_terminal: bool) -> None:
        self._run = run
        self._prompt = f"user@{name}:~$ "
        self._is_terminal = is_terminal
        self._line = ""
        self.code = 0
        self.is_over = False

    @property
    def greeting(self) -> bytes:
        """What stands there first."""
        return (GREETING + self._prompt).encode() if self._is_terminal else b""

    def heard(self, data: bytes) -> bytes:
        """What these keys, or these lines, bring forth."""
        answer = ""
        for key in data.decode(errors="replace"):
            if not self.is_over:
                answer += self._typed(key)
        return answer.encode()

    def ended(self) -> bytes:
        """No more comes: the last line counts without its end."""
        answer = "" if self.is_over else self._entered()
        self.is_over = True
        return answer.encode()

    def _typed(self, key: str) -> str:
        if key in (_ENTER, "\n"):
            return self._seen("\r\n") + self._entered()
        if key == _END and not self._line and self._is_terminal:
            self.is_over = True
            return "exit\r\n"
        if key == _ABORT:
            self._line = ""
            return self._seen("^C\r\n" + self._prompt)
        if key in (_BACKSPACE, "\b"):
            is_some, self._line = bool(self._line), self._line[:-1]
            return self._seen("\b \b") if is_some else ""
        if key < " " and key != "\t":
            return ""
        self._line += key
        return self._seen(key)

    def _entered(self) -> str:
        words, self._line = self._line.split(), ""
        match words:
            case []:
                answer = ""
            case ["exit" | "logout", *rest]:
                self.is_over = True
                self.code = int(rest[0]) % 256 if rest and rest[0].isdigit() else self.code
                return ""
            case ["help"]:
                answer, self.code = f"{HELP}\n", 0
            case _:
                out, err, self.code = self._run(words)
                answer = out + err
        shown = answer.replace("\n", "\r\n") if self._is_terminal else answer
        return shown + self._seen(self._prompt)

    def _seen(self, text: str) -> str:
        return text if self._is_terminal else ""
