"""Reviews: questions about access and tokens that are answered, never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox.api.auth import tokens
from sandbox.api.auth.rbac import Ask
from sandbox.api.auth.users import User
from sandbox.api.http.requests import Request
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj

if TYPE_CHECKING:
    from sandbox.api.http.server import Server


def _ask(spec: Obj) -> Ask:
    plain = spec.get("nonResourceAttributes")
    if (plain is None) == (spec.get("resourceAttributes") is None):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        problem = errors.invalid_value("spec.resourceAttributes", spec.get("resourceAttributes"), why)
        raise errors.invalid("", "authorization.k8s.io", "", [problem])
    if plain is not None:
        return Ask(plain.get("verb", ""), path=plain.get("path", ""))
    found = spec.get("resourceAttributes") or {}
    return Ask(
        found.get("verb", ""),
        found.get("group", ""),
        found.get("resource", ""),
        found.get("subresource", ""),
        found.get("namespace", ""),
        found.get("name", ""),
    )


def _verdict(server: Server, user: User, ask: Ask) -> Obj:
    if not server.authorizer.allows(user, ask):
        return {"allowed": False}
    reason = server.authorizer.why(user, ask)
    return {"allowed": True, **({"reason": reason} if reason else {})}


def _self_access(server: Server, request: Request, body: Obj) -> Obj:
    return _verdict(server, request.user, _ask(body.get("spec", {})))


def _access(server: Server, _request: Request, body: Obj) -> Obj:
    spec = body.get("spec", {})
    return _verdict(server, User(spec.get("user", ""), tuple(spec.get("groups") or ())), _ask(spec))


def _rules(server: Server, request: Request, body: Obj) -> Obj:
    space = body.get("spec", {}).get("namespace")
    if not space:
        raise errors.bad_request("no namespace on request")
    held = server.authorizer.grants(request.user).rules(space)
    if request.user.is_admin():
        held = [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ]
    return {
        "resourceRules": [rule for rule in held if rule.get("resources")],
        "nonResourceRules": [rule for rule in held if rule.get("nonResourceURLs")],
        "incomplete": False,
    }


def _token(server: Server, _request: Request, body: Obj) -> Obj:
    return tokens.review_status(server.tokens, body.get("spec", {}).get("token", ""))


def _me(_server: Server, request: Request, _body: Obj) -> Obj:
    return {"userInfo": tokens.user_info(request.user)}


ANSWERS: dict[str, Callable[[Server, Request, Obj], Obj]] = {
    "selfsubjectaccessreviews.authorization.k8s.io": _self_access,
    "subjectaccessreviews.authorization.k8s.io": _access,
    "localsubjectaccessreviews.authorization.k8s.io": _access,
    "selfsubjectrulesreviews.authorization.k8s.io": _rules,
    "tokenreviews.authentication.k8s.io": _token,
    "selfsubjectreviews.authentication.k8s.io": _me,
}
