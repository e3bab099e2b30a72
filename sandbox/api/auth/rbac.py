"""Role-based access: answers what a user may do, from the stored roles and bindings.

Also stops users from granting more than they hold. Knows no token.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.api.auth.users import User
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, name_of, namespace_of
from sandbox.api.meta.selectors import matches_selector
from sandbox.api.storage.store import Change, Place, Store

if TYPE_CHECKING:
    from sandbox.api.http.requests import Request


GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
BINDINGS, CLUSTER_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
RESOURCES = frozenset({ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS})


@dataclass(frozen=True)
class Ask:
    """One question to the authorizer: a resource, or a plain path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    def full_resource(self) -> str:
        """`pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


# A rule, and the binding it came by in the words of an access review.
Grant = tuple[Obj, str]


@dataclass
class Grants:
    """What a user holds: everywhere, and in single namespaces."""

    everywhere: list[Grant] = field(default_factory=list)
    spaces: dict[str, list[Grant]] = field(default_factory=lambda: defaultdict(list))

    def held(self, namespace: str) -> Sequence[Grant]:
        """What counts in a namespace ("" is cluster scope)."""
        return [*self.everywhere, *self.spaces.get(namespace, ())] if namespace else self.everywhere

    def rules(self, namespace: str) -> Sequence[Obj]:
        """Rules that count in a namespace."""
        return [rule for rule, _ in self.held(namespace)]


def _has(wanted: str, listed: Iterable[str]) -> bool:
    return any(item in ("*", wanted) for item in listed)


def rule_allows(rule: Obj, ask: Ask) -> bool:
    """Whether one PolicyRule covers a question."""
    if not _has(ask.verb, rule.get("verbs") or ()):
        return False
    if ask.path:
        return any(
            item in ("*", ask.path) or (item.endswith("*") and ask.path.startswith(item[:-1]))
            for item in rule.get("nonResourceURLs") or ()
        )
    if not _has(ask.group, rule.get("apiGroups") or ()):
        return False
    resources = rule.get("resources") or ()
    if not _has(ask.full_resource(), resources) and not (
        ask.subresource and f"*/{ask.subresource}" in resources
    ):
        return False
    names = rule.get("resourceNames") or ()
    return not names or ask.name in names


class Authorizer:
    """Answers from the stored objects; what a user holds is kept until any role or binding changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[User | tuple[str, tuple[str, ...]], Grants] = {}
        store.listen(self._follow)

    def _follow(self, change: Change) -> None:
        if change.resource in RESOURCES:
            self._kept.clear()

    def allows(self, user: User, ask: Ask) -> bool:
        """Whether a user may."""
        return user.is_admin() or any(
            rule_allows(rule, ask) for rule in self.grants(user).rules(ask.namespace)
        )

    def why(self, user: User, ask: Ask) -> str:
        """The reason an access review gives; empty for the administrator."""
        if user.is_admin():
            return ""
        return next(
            (reason for rule, reason in self.grants(user).held(ask.namespace) if rule_allows(rule, ask)), ""
        )

    def grants(self, user: User) -> Grants:
        """Everything a user holds."""
        key = (user.name, user.groups)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._collect(user)
        return found

    def _collect(self, user: User) -> Grants:
        grants = Grants()
        for entry in self._store.entries(CLUSTER_BINDINGS):
            subject = _binds(entry.obj, user)
            if subject:
                reason = _reason(entry.obj, subject)
                grants.everywhere += [(rule, reason) for rule in self.role_rules(entry.obj["roleRef"], "")]
        for entry in self._store.entries(BINDINGS):
            subject = _binds(entry.obj, user)
            if subject:
                space, reason = namespace_of(entry.obj), _reason(entry.obj, subject)
                grants.spaces[space] += [
                    (rule, reason) for rule in self.role_rules(entry.obj["roleRef"], space)
                ]
        return grants

    def role_rules(self, reference: Obj, namespace: str) -> list[Obj]:
        """The rules of a role reference; none when the role is missing."""
        cluster = reference.get("kind") == "ClusterRole"
        entry = self._store.get(
            CLUSTER_ROLES if cluster else ROLES,
            Place("" if cluster else namespace, reference.get("name", "")),
        )
        if entry is None:
            return []
        return (
            aggregated(self._store, entry.obj)
            if entry.obj.get("aggregationRule")
            else entry.obj.get("rules") or []
        )

    def check(self, request: Request, ask: Ask) -> None:
        """403 in the real server's words."""
        if self.allows(request.user, ask):
            return
        if ask.path:
            raise errors.ApiError(
                403, f'forbidden: User "{request.user.name}" cannot {ask.verb} path "{ask.path}"', details={}
            )
        scope = f'in the namespace "{ask.namespace}"' if ask.namespace else "at the cluster scope"
        why = (
            f'User "{request.user.name}" cannot {ask.verb} resource "{ask.full_resource()}" in API group '
            f'"{ask.group}" {scope}'
        )
        raise errors.forbidden(ask.resource, ask.group, ask.name, why)


def _binds(binding: Obj, user: User) -> str:
    """The subject that makes a binding count for a user, in the words of an access review."""
    for subject in binding.get("subjects") or ():
        kind, name = subject["kind"], subject["name"]
        if (kind == "User" and name == user.name) or (kind == "Group" and name in user.groups):
            return f'{kind} "{name}"'
        space = subject.get("namespace") or namespace_of(binding)
        if kind == "ServiceAccount" and user.name == f"system:serviceaccount:{space}:{name}":
            return f'ServiceAccount "{name}/{space}"'
    return ""


def _reason(binding: Obj, subject: str) -> str:
    space, role = namespace_of(binding), binding["roleRef"]
    kind, place = (
        ("RoleBinding", f"{name_of(binding)}/{space}") if space else ("ClusterRoleBinding", name_of(binding))
    )
    return f'RBAC: allowed by {kind} "{place}" of {role["kind"]} "{role["name"]}" to {subject}'


def aggregated(store: Store, role: Obj) -> list[Obj]:
    """The union of the cluster roles that an aggregation rule selects."""
    found: list[Obj] = []
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        for entry in store.entries(CLUSTER_ROLES):
            if entry.obj is not role and matches_selector(
                selector, entry.obj["metadata"].get("labels") or {}
            ):
                found += [rule for rule in entry.obj.get("rules") or () if rule not in found]
    return found
