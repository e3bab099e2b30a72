"""Builds the images of a Dockerfile without Docker: its own steps, over files that stand for its base image.

What the product's Dockerfile uses is understood, all else is refused: FROM (a base or an earlier stage), ENV,
WORKDIR, COPY of tracked files or from a stage, RUN, USER, CMD, ENTRYPOINT; EXPOSE and HEALTHCHECK say nothing
to a kubelet. A RUN has no network: pip gets its packages from a folder, by the hashes of the lock file.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SAYS_NOTHING = ("EXPOSE", "HEALTHCHECK", "ARG")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_IN_A_ROOM_OF_ITS_OWN = (
    'mount --bind /dev "$1/dev"; mount --bind "$2" "$1/mnt"; exec chroot "$1" /bin/sh -ec "$3"'
)
"""Its mounts are gone with its namespace, whatever happens."""


@dataclass(frozen=True)
class Stage:
    """One image of a Dockerfile: what it begins from, and its steps as (instruction, words)."""

    name: str
    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Built:
    """The files of a stage, and what its image's configuration says so far."""

    files: Path
    env: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = ""
    cmd: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)

    @property
    def config(self) -> dict[str, Any]:
        """As an image's configuration has it."""
        return {
            "Env": [f"{name}={value}" for name, value in self.env.items()],
            "WorkingDir": self.folder,
            "User": self.user,
            "Cmd": self.cmd,
            "Entrypoint": self.entrypoint,
        }

    def inside(self, path: str) -> Path:
        """Where a path of the image is on this machine."""
        whole = path if path.startswith("/") else f"{self.folder}/{path}"
        return self.files / whole.lstrip("/")


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile, in their order."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found: list[Stage] = []
    for line in filter(None, map(str.strip, whole.splitlines())):
        instruction, _, words = line.partition(" ")
        if instruction == "FROM":
            base, _, name = words.partition(" AS ")
            found.append(Stage(name.strip(), base.strip()))
        else:
            found[-1].steps.append((instruction, words.strip()))
    return found


class Builder:
    """Builds stages of a Dockerfile. `base` is a tar of the files of every base image, `context` a checkout,
    `wheels` a folder with all packages that pip is asked for.
    """

    def __init__(self, text: str, context: Path, wheels: Path, base: Path) -> None:
        self._stages = stages(text)
        self._context, self._wheels, self._base = context, wheels, base

    def build(self, target: str, into: Path) -> Built:
        """The stage of that name (empty: the last one), its files in an empty folder."""
        chosen = next(s for s in reversed(self._stages) if not target or s.name == target)
        if any(each.name == chosen.base for each in self._stages):
            built = self.build(chosen.base, into)
        else:
            subprocess.run(["tar", "-xf", self._base, "-C", into], check=True)
            built = Built(into, {"PATH": "/usr/local/bin:/usr/bin:/bin"})
        does = {"ENV": _env, "WORKDIR": _workdir, "USER": _user, "COPY": self._copy, "RUN": self._run}
        for instruction, words in chosen.steps:
            if instruction in ("CMD", "ENTRYPOINT"):
                setattr(built, instruction.lower(), json.loads(words))
            elif instruction in does:
                does[instruction](built, words)
            elif instruction not in _SAYS_NOTHING:
                raise ValueError(f"this builder knows no {instruction}")
        return built

    def _copy(self, built: Built, line: str) -> None:
        words = shlex.split(line)
        stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
        *sources, goal = words
        target = built.inside(goal)
        if stage:
            with tempfile.TemporaryDirectory(prefix="stage-", dir=built.files.parent) as folder:
                other = self.build(stage, Path(folder))
                for source in sources:
                    shutil.copytree(other.inside(source), target, symlinks=True, dirs_exist_ok=True)
            return
        for source in sources:
            tracked = ["git", "ls-files", "-z", "--", source]
            listed = subprocess.run(tracked, cwd=self._context, check=True, capture_output=True, text=True)
            for path in filter(None, listed.stdout.split("\0")):
                is_folder = path != source
                place = target / (Path(path).relative_to(source) if is_folder else Path(path).name)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._context / path, place)

    def _run(self, built: Built, words: str) -> None:
        for folder in ("dev", "mnt"):
            (built.files / folder).mkdir(exist_ok=True)
        env = built.env | {
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/mnt", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "HOME": "/root",
        }  # fmt: skip
        line = f"cd {shlex.quote(built.folder)}; {words}"
        ended = subprocess.run(
            [
                "unshare",
                "--mount",
                "--net",
                "sh",
                "-ec",
                _IN_A_ROOM_OF_ITS_OWN,
                "sh",
                built.files,
                self._wheels,
                line,
            ],
            env=env | {"PATH": f"{env['PATH']}:/usr/sbin:/sbin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(f"RUN {words}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}")


def _env(built: Built, line: str) -> None:
    for pair in shlex.split(line):
        name, _, value = pair.partition("=")
        built.env[name] = _VARIABLE.sub(lambda used: built.env.get(used[1], ""), value)


def _workdir(built: Built, line: str) -> None:
    built.folder = line
    built.inside(line).mkdir(parents=True, exist_ok=True)


def _user(built: Built, line: str) -> None:
    built.user = line
