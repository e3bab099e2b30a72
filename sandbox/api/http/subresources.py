"""Subresources with an own shape: scale, token, eviction, binding, finalize. status is generic; log and
exec have own modules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox.api.auth import tokens
from sandbox.api.http.requests import Reply, Request, body_object, json_reply
from sandbox.api.http.rest import APPLY, options_of, patcher
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, copy_of, dig
from sandbox.api.registry import deletion
from sandbox.api.storage.store import Place
from sandbox.kinds.table import Kind

if TYPE_CHECKING:
    from sandbox.api.http.server import Server

Handler = Callable[["Server", Request, Kind], Reply]


def _target(request: Request) -> Place:
    return Place(request.info.namespace, request.info.name)


def _paths(kind: Kind) -> tuple[list[str], list[str], list[str]]:
    """Where replicas, their status and the selector stand: custom kinds say so themselves."""
    own = kind.subresources.get("scale") or {}
    keys = (
        ("specReplicasPath", ".spec.replicas"),
        ("statusReplicasPath", ".status.replicas"),
        ("labelSelectorPath", ""),
    )
    spec, status, selector = (str(own.get(key, usual)).strip(".").split(".") for key, usual in keys)
    return spec, status, selector


def _selector_text(kind: Kind, obj: Obj) -> str:
    if not kind.native:
        return str(dig(obj, *_paths(kind)[2], default=""))
    labels = dig(obj, "spec", "selector", "matchLabels", default={})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _scale_of(kind: Kind, obj: Obj) -> Obj:
    spec, status, _ = _paths(kind)
    replicas, selector = dig(obj, *spec, default=0), _selector_text(kind, obj)
    keys = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: obj["metadata"][key] for key in keys if key in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": dig(obj, *status, default=0), **({"selector": selector} if selector else {})},
    }


def scale(server: Server, request: Request, kind: Kind) -> Reply:
    """autoscaling/v1 Scale of a workload: GET, PUT, PATCH."""
    place = _target(request)
    live = server.registry.entry(kind, *place).obj
    if request.method == "GET":
        return json_reply(_scale_of(kind, live))
    if request.media() in APPLY:
        return _apply_scale(server, request, kind)
    if request.method == "PUT":
        asked = body_object(request.body, request.media())
    else:
        asked = patcher(server.scale_kind, request.media(), request.body)(copy_of(_scale_of(kind, live)))
    wanted, version = dig(asked, "spec", "replicas", default=0), dig(asked, "metadata", "resourceVersion")
    if not isinstance(wanted, int) or wanted < 0:
        problem = errors.invalid_value("spec.replicas", wanted, "must be greater than or equal to 0")
        raise errors.invalid("Scale", "autoscaling", place.name, [problem])

    def resize(obj: Obj) -> Obj:
        *outer, last = _paths(kind)[0]
        here = obj
        for step in outer:
            here = here.setdefault(step, {})
        here[last] = wanted
        if version:
            obj["metadata"]["resourceVersion"] = version
        return obj

    options = replace(options_of(request), subresource="scale")
    return json_reply(_scale_of(kind, server.registry.update(kind, place, resize, options)))


def _apply_scale(server: Server, request: Request, kind: Kind) -> Reply:
    """Applies replicas in the words of the scaled kind, so that their owner is found there."""
    body = body_object(request.body, request.media())
    own = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": body.get("metadata") or {},
        "spec": body.get("spec") or {},
    }
    obj, _ = server.registry.apply(
        kind, _target(request), own, replace(options_of(request), subresource="scale")
    )
    return json_reply(_scale_of(kind, obj))


def token(server: Server, request: Request, kind: Kind) -> Reply:
    """TokenRequest of a service account."""
    if request.method != "POST":
        raise errors.ApiError(405, "the server does not allow this method on the requested resource")
    account = server.registry.entry(kind, *_target(request)).obj
    body = body_object(request.body, request.media())
    issued, expiry = server.tokens.issue(account, body.get("spec") or {})
    return json_reply(tokens.token_reply(body, account, issued, expiry), 201)


def eviction(server: Server, request: Request, kind: Kind) -> Reply:
    """Deletes the pod; there are no disruption budgets here."""
    body = body_object(request.body, request.media())
    asked = deletion.Deletion.parse(body.get("deleteOptions") or {}, {})
    options = replace(options_of(request), subresource="")
    deletion.delete(server.registry, kind, _target(request), asked=asked, options=options)
    return json_reply(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
    )


def binding(server: Server, request: Request, kind: Kind) -> Reply:
    """Puts a pod on a node."""
    node = dig(body_object(request.body, request.media()), "target", "name", default="")
    place = _target(request)
    if dig(server.registry.entry(kind, *place).obj, "spec", "nodeName"):
        raise errors.conflict(
            "pods/binding", "", place.name, f'pod {place.name} is already assigned to node "{node}"'
        )

    def assign(obj: Obj) -> Obj:
        obj["spec"]["nodeName"] = node
        return obj

    server.registry.update(
        kind, place, assign, replace(options_of(request), trusted=True, subresource="binding")
    )
    return json_reply(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
    )


def finalize(server: Server, request: Request, kind: Kind) -> Reply:
    """Replaces spec.finalizers of a namespace."""
    body = body_object(request.body, request.media())

    def change(live: Obj) -> Obj:
        live["spec"] = {**live.get("spec", {}), "finalizers": dig(body, "spec", "finalizers", default=[])}
        return live

    obj = server.registry.update(kind, _target(request), change, options_of(request))
    return json_reply(obj)


HANDLERS: dict[tuple[str, str], Handler] = {
    ("deployments.apps", "scale"): scale,
    ("statefulsets.apps", "scale"): scale,
    ("replicasets.apps", "scale"): scale,
    ("serviceaccounts", "token"): token,
    ("pods", "eviction"): eviction,
    ("pods", "binding"): binding,
    ("namespaces", "finalize"): finalize,
}
