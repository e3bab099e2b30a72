"""What a simulated notebook serves: a page that says what it is and shows its GPU, and Jupyter's kernels.

It wants the token that its pod was given, as the IDE in a real pod does.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import orjson

from sandbox.api.cluster.simulated import Cluster
from sandbox.api.meta.objects import Obj, dig, timestamp
from sandbox.fleet.console import readings_of
from sandbox.notebooks import endpoint

_PAGE = Path(__file__).with_name("page.html")
_BUSY = 0.02


def _variable(entry: Obj) -> Obj:
    """A variable as the page shows it: what comes from a Secret stays there."""
    secret = dig(entry, "valueFrom", "secretKeyRef", "name", default="")
    return {"name": entry["name"], "value": entry.get("value", ""), "secret": secret}


class Ide:
    """The IDE of every simulated pod."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster, self._seed = cluster, seed

    def answer(
        self, pod: Obj, path: str, headers: Mapping[str, str], now: datetime
    ) -> tuple[int, str, bytes]:
        """See `PortSource.answer`."""
        if endpoint.is_served_by(pod):
            return endpoint.answer(pod, path, now)
        token = self._token(pod)
        if token and not hmac.compare_digest(headers.get("authorization", ""), f"token {token}"):
            return 403, "text/plain; charset=utf-8", b"This notebook wants its token.\n"
        if path == "/":
            return 200, "text/html; charset=utf-8", _PAGE.read_bytes()
        if path == "/echo" and headers.get("upgrade", "").lower() == "websocket":
            return 101, "", b""
        shown = {"/state": self._state, "/api/kernels": self._kernels, "/api/status": self._status}.get(path)
        if shown is None:
            return 404, "text/plain; charset=utf-8", b"The simulated notebook has no such page.\n"
        return 200, "application/json", orjson.dumps(shown(pod, now))

    def _token(self, pod: Obj) -> str:
        """The value of the variable that Jupyter reads, from the Secret that it refers to."""
        variables = (v for c in pod["spec"]["containers"] for v in c.get("env") or ())
        found: Obj = next((v for v in variables if v["name"] == "JUPYTER_TOKEN"), {})
        key = dig(found, "valueFrom", "secretKeyRef", default={})
        if not key:
            return str(found.get("value", ""))
        secret = self._cluster.system.get("secrets", key["name"], pod["metadata"]["namespace"]) or {}
        try:
            return base64.b64decode(dig(secret, "data", key["key"], default="")).decode()
        except (binascii.Error, UnicodeDecodeError):
            return ""

    def _state(self, pod: Obj, now: datetime) -> Obj:
        spec = pod["spec"]["containers"][0]
        return {
            "pod": pod["metadata"]["name"],
            "namespace": pod["metadata"]["namespace"],
            "node": pod["spec"].get("nodeName", ""),
            "image": spec["image"],
            "at": timestamp(now),
            "environment": [_variable(each) for each in spec.get("env") or ()],
            "gpus": [
                {
                    "name": r.device.gpu.model.product_name,
                    "slice": r.device.instance.placement.profile.name if r.device.instance else "",
                    "uuid": (r.device.instance or r.device.gpu).uuid,
                    "sm": round(100 * r.used.sm),
                    "memory": round(r.used.memory_mib),
                    "of": round(r.device.memory_mib),
                }
                for r in readings_of(self._cluster, self._seed, pod, now)
            ],
        }

    def _status(self, pod: Obj, now: datetime) -> Obj:
        """As its kernels."""
        kernels = self._kernels(pod, now)
        return {
            "connections": sum(each["connections"] for each in kernels),
            "kernels": len(kernels),
            "last_activity": max(each["last_activity"] for each in kernels),
            "started": pod["metadata"]["creationTimestamp"],
        }

    def _kernels(self, pod: Obj, now: datetime) -> list[Obj]:
        """One kernel, that was last active while its device worked, or when it began."""
        readings = readings_of(self._cluster, self._seed, pod, now)
        is_busy = any(r.used.sm > _BUSY for r in readings)
        last = now if is_busy else now - timedelta(minutes=30)
        state = "busy" if is_busy else "idle"
        return [
            {
                "id": pod["metadata"]["uid"],
                "name": "python3",
                "last_activity": max(timestamp(last), pod["metadata"]["creationTimestamp"]),
                "execution_state": state,
                "connections": 1,
            }
        ]
