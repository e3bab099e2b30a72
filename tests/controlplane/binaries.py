"""Builds the control plane's programs from pinned Go modules and keeps them in a cache outside the checkout.

The cache key is the hash of a build's module files, their checksums and the flags, so a changed pin never
meets an old binary. Flux is a build of its own: only one long suite needs it. Helm too: a changed pin of it
builds no plane anew. Starts nothing and knows nothing about running planes.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "tools"
KUBERNETES, KUEUE, KWOK = "k8s.io/kubernetes", "sigs.k8s.io/kueue", "sigs.k8s.io/kwok"
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")

logger = logging.getLogger(__name__)


class BuildError(RuntimeError):
    """A program could not be built; the message carries the compiler's last lines."""


@dataclass(frozen=True)
class Tool:
    """One program: its name, its Go package, the module folder that pins it, and Go's build tags."""

    name: str
    package: str
    module: Path
    tags: str = ""


_PLANE_TOOLS = (
    Tool("etcd", "go.etcd.io/etcd/server/v3", MODULES),
    Tool("kube-apiserver", f"{KUBERNETES}/cmd/kube-apiserver", MODULES),
    Tool("kube-controller-manager", f"{KUBERNETES}/cmd/kube-controller-manager", MODULES),
    Tool("kube-scheduler", f"{KUBERNETES}/cmd/kube-scheduler", MODULES),
    Tool("kubectl", f"{KUBERNETES}/cmd/kubectl", MODULES),
    Tool("kueue", f"{KUEUE}/cmd/kueue", MODULES),
    Tool("kwok", f"{KWOK}/cmd/kwok", MODULES / "kwok"),
)

Asset = tuple[Path, str, str, str]
"""A module folder, the module, what it ships, and the name it gets beside the binaries."""

# Manifests that the modules ship and a plane applies: copied beside the binaries, so that `up` needs no Go.
_PLANE_ASSETS: tuple[Asset, ...] = (
    (MODULES, KUEUE, "config/components/crd/bases", "kueue-crds"),
    (MODULES, KUEUE, "config/components/webhook/manifests.yaml", "kueue-webhooks.yaml"),
    (MODULES / "kwok", KWOK, "kustomize/stage/node/fast/node-initialize.yaml", "stages/node-initialize.yaml"),
    (
        MODULES / "kwok",
        KWOK,
        "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
        "stages/node-heartbeat.yaml",
    ),
    (MODULES / "kwok", KWOK, "kustomize/stage/pod/fast/pod-ready.yaml", "stages/pod-ready.yaml"),
    (MODULES / "kwok", KWOK, "kustomize/stage/pod/fast/pod-delete.yaml", "stages/pod-delete.yaml"),
    (MODULES / "kwok", KWOK, "kustomize/stage/pod/general/pod-complete.yaml", "stages/pod-complete.yaml"),
)


FLUX_MODULE, CHART_MODULE, HELM_MODULE = MODULES / "flux", MODULES / "vcluster", MODULES / "helm"
HELM_CONTROLLER = "github.com/fluxcd/helm-controller"
SOURCE_CONTROLLER = "github.com/fluxcd/source-controller"
VCLUSTER = "github.com/loft-sh/vcluster"
HELM_CLIENT = "helm.sh/helm/v3"


@dataclass(frozen=True)
class Build:
    """Programs and shipped files that are built and cached together, from these module folders."""

    modules: tuple[Path, ...]
    tools: tuple[Tool, ...]
    assets: tuple[Asset, ...]

    @property
    def key(self) -> str:
        """Hash of module files, checksums, programs of our own, flags and the list of shipped files."""
        digest = hashlib.sha256()
        for folder in self.modules:
            for name in ("go.mod", "go.sum"):
                digest.update((folder / name).read_bytes())
            for source in sorted(folder.glob("*/*.go")):
                digest.update(source.read_bytes())
        digest.update("".join(tool.tags for tool in self.tools).encode())
        digest.update(repr((build_flags(), [asset[2:] for asset in self.assets])).encode())
        return digest.hexdigest()[:16]


PLANE = Build((MODULES, MODULES / "kwok"), _PLANE_TOOLS, _PLANE_ASSETS)
FLUX = Build(
    (FLUX_MODULE, CHART_MODULE),
    (
        Tool("helm-controller", HELM_CONTROLLER, FLUX_MODULE),
        Tool("source-controller", SOURCE_CONTROLLER, FLUX_MODULE),
    ),
    (
        (FLUX_MODULE, HELM_CONTROLLER, "config/crd/bases", "helm-crds"),
        (FLUX_MODULE, SOURCE_CONTROLLER, "config/crd/bases", "source-crds"),
        (CHART_MODULE, VCLUSTER, "chart", "vcluster-chart"),
    ),
)

# Flux's schemas alone: seconds, no compiler. What is rendered for Flux is judged by them in every gate.
FLUX_SCHEMAS = Build((FLUX_MODULE,), (), FLUX.assets[:2])

# Gateway API, of the experimental channel: the filter ExternalAuth is in no other. The pin is Kueue's own
# requirement, and no program is built from it: a plane gains the kinds in a second.
GATEWAY_API = "sigs.k8s.io/gateway-api"
_GATEWAY_CRDS = "config/crd/experimental/gateway.networking.k8s.io"
GATEWAY_SCHEMAS = Build(
    (MODULES,),
    (),
    tuple(
        (MODULES, GATEWAY_API, f"{_GATEWAY_CRDS}_{kind}.yaml", f"crds/{kind}.yaml")
        for kind in ("gatewayclasses", "gateways", "httproutes", "referencegrants")
    ),
)

# A controller of Gateway API that knows the filter ExternalAuth: Cilium's operator, by Cilium's own go.mod
# but for two modules that proxies do not serve: gobgp is a release of some days later, of the other Cilium
# uses one name.
GATEWAY_MODULE = MODULES / "gateway"
CILIUM = "github.com/cilium/cilium"
GATEWAY_CONTROLLER = Build(
    (GATEWAY_MODULE,),
    (Tool("cilium-operator-generic", f"{CILIUM}/operator", GATEWAY_MODULE, "ipam_provider_operator"),),
    tuple(
        (GATEWAY_MODULE, GATEWAY_API, f"{_GATEWAY_CRDS}_{kind}.yaml", f"crds/{kind}.yaml")
        for kind in ("backendtlspolicies", "grpcroutes", "tlsroutes")
    ),
)

# What an installer runs on the product's chart. Its client-go is not Kubernetes' own: a module by itself.
HELM = Build((HELM_MODULE,), (Tool("helm", f"{HELM_CLIENT}/cmd/helm", HELM_MODULE),), ())

# Docker's own loader of Compose files, and nothing of Docker.
COMPOSE_MODULE = MODULES / "compose"
COMPOSE = Build(
    (COMPOSE_MODULE,), (Tool("resolve", "allotment.dev/controlplane/compose/resolve", COMPOSE_MODULE),), ()
)


@dataclass(frozen=True)
class Binaries:
    """A finished build: every program and every shipped manifest under one folder."""

    folder: Path

    def path(self, name: str) -> Path:
        """The program called `name`."""
        return self.folder / "bin" / name

    def asset(self, name: str) -> Path:
        """The shipped manifest file or folder called `name`."""
        return self.folder / "assets" / name


def cache_root() -> Path:
    """ALLOTMENT_CACHE, else the user's cache folder; never inside the checkout."""
    base = os.environ.get("ALLOTMENT_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "allotment" / "controlplane"


def pinned_version(module: str) -> str:
    """The version that our go.mod pins, so that no version is written twice."""
    for folder in (MODULES, MODULES / "kwok", FLUX_MODULE, CHART_MODULE, HELM_MODULE):
        found = pinned_in(folder, module)
        if found:
            return found
    raise BuildError(f"{module} is not pinned in {MODULES}")


def pinned_in(folder: Path, module: str) -> str | None:
    """The version of a module that one go.mod pins."""
    found = re.search(rf"{re.escape(module)} (v\S+)", (folder / "go.mod").read_text())
    return found[1] if found else None


def build_flags() -> list[str]:
    """Without the linked version the API server reports v0.0.0 and Kueue refuses to start."""
    version = pinned_version(KUBERNETES)
    major, minor, _ = version.removeprefix("v").split(".", 2)
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    links = [f"-X {package}.{key}={value}" for package in _VERSION_PACKAGES for key, value in values.items()]
    return ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", " ".join(["-s", "-w", *links])]


def find(build: Build = PLANE) -> Binaries | None:
    """The finished build of this checkout's pins, or None."""
    folder = cache_root() / build.key
    return Binaries(folder) if folder.is_dir() else None


def ensure(build: Build = PLANE) -> Binaries:
    """The finished build; builds it first where it is missing (minutes, once per machine and pin)."""
    found = find(build)
    if found:
        return found
    with exclusive(cache_root() / "build.lock"):
        # Another builder may have finished while this one waited for the lock.
        return find(build) or _make(build)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds a lock file across processes; the kernel frees it when a builder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _make(build: Build) -> Binaries:
    if not shutil.which("go"):
        raise BuildError("the control plane is built with Go 1.26 or newer and no `go` is on PATH")
    started = time.monotonic()
    final = cache_root() / build.key
    with tempfile.TemporaryDirectory(prefix="building-", dir=cache_root()) as temporary:
        work = Path(temporary) / "build"
        for tool in build.tools:
            _build_tool(tool, work / "bin" / tool.name)
        for asset in build.assets:
            _copy_asset(*asset[:3], work / "assets" / asset[3])
        # One rename makes the build visible: whoever finds the folder finds all of it.
        work.rename(final)
    logger.info("built in %.0f s: %s", time.monotonic() - started, final)
    return Binaries(final)


def _build_tool(tool: Tool, target: Path) -> None:
    started = time.monotonic()
    logger.info("building %s ...", tool.name)
    flags = [*build_flags(), *(["-tags", tool.tags] if tool.tags else [])]
    _go(["build", *flags, "-o", str(target), tool.package], tool.module)
    logger.info("built %s in %.0f s", tool.name, time.monotonic() - started)


def _copy_asset(folder: Path, module: str, source: str, target: Path) -> None:
    # A module that only ships files is not fetched by any build.
    _go(["mod", "download", module], folder)
    origin = Path(_go(["list", "-m", "-f", "{{.Dir}}", module], folder).strip()) / source
    if origin.is_dir():
        # The module cache is read-only, its copy must not be.
        shutil.copytree(origin, target, copy_function=shutil.copyfile)
        for folder_made in (target, *(path for path in target.rglob("*") if path.is_dir())):
            folder_made.chmod(0o755)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(origin, target)


def _go(arguments: list[str], folder: Path) -> str:
    environment = {**os.environ, "GOWORK": "off"}
    done = subprocess.run(
        ["go", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise BuildError(f"go {arguments[0]} failed in {folder}:\n{tail}")
    return done.stdout
