"""Pods that no controller made."""

from __future__ import annotations

from tests.sandbox.controllers.bodies import (
    Obj,
    container,
)


def plain_pod(name: str, **spec: object) -> Obj:
    body = {"containers": [container()], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}
