"""Images as files, laid out as the registry serves them: blobs by digest, manifests by name and tag.

One store per machine, in the cache. A layer is built once per recipe; the same folder gives the same digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane import binaries

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"

Descriptor = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """Blobs, manifests and the recipes of layers under one folder."""

    root: Path

    def blob(self, digest: str) -> Path:
        """The file of a blob, there or not."""
        return self.root / "blobs" / digest.replace(":", "-")

    def manifest(self, repository: str, tag: str) -> Path:
        """The file that names the manifest of a tag, there or not."""
        return self.root / "tags" / repository / f"{tag}.digest"

    def has(self, recipe: str) -> bool:
        """Whether the layer of this recipe was built."""
        return self._known(recipe).exists()

    def layer(self, recipe: str, make: Callable[[Path], None], *, keeps_owners: bool = False) -> Descriptor:
        """The layer of this recipe; `make` fills an empty folder where it is missing. Root owns all of it,
        unless it `keeps_owners`.
        """
        known = self._known(recipe)
        with binaries.exclusive(known.with_suffix(".lock")):
            if not known.exists():
                known.write_text(json.dumps(self._made(make, keeps_owners=keeps_owners)))
        found: Descriptor = json.loads(known.read_text())
        return found

    def publish(
        self, repository: str, tag: str, layers: Sequence[Descriptor], config: Mapping[str, Any]
    ) -> str:
        """Makes an image of these layers known under its name; returns its digest."""
        document = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], **config},
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._put(_CONFIG, document),
            "layers": list(layers),
        }
        digest = str(self._put(MANIFEST, manifest)["digest"])
        named = self.manifest(repository, tag)
        named.parent.mkdir(parents=True, exist_ok=True)
        _replace(named, digest.encode())
        return digest

    def _known(self, recipe: str) -> Path:
        key = hashlib.sha256(recipe.encode()).hexdigest()[:24]
        return self.root / "layers" / f"{key}.json"

    def _put(self, kind: str, document: Mapping[str, Any]) -> Descriptor:
        data = json.dumps(document, sort_keys=True).encode()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blob(digest).parent.mkdir(parents=True, exist_ok=True)
        _replace(self.blob(digest), data)
        return {"mediaType": kind, "digest": digest, "size": len(data)}

    def _made(self, make: Callable[[Path], None], *, keeps_owners: bool) -> Descriptor:
        with tempfile.TemporaryDirectory(prefix="building-", dir=self.root) as folder:
            files, packed = Path(folder) / "files", Path(folder) / "layer.tar"
            files.mkdir(mode=0o755)
            make(files)
            _pack(files, packed, keeps_owners=keeps_owners)
            with packed.open("rb") as opened:
                digest = f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"
            size = packed.stat().st_size
            self.blob(digest).parent.mkdir(parents=True, exist_ok=True)
            packed.replace(self.blob(digest))
        return {"mediaType": _LAYER, "digest": digest, "size": size}


def _pack(folder: Path, target: Path, *, keeps_owners: bool) -> None:
    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        """Nothing has a time, and mostly root owns everything: the same files give the same digest."""
        if not keeps_owners:
            info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = 0
        return info

    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for entry in sorted(folder.iterdir()):
            archive.add(entry, arcname=entry.name, filter=plain)


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)
