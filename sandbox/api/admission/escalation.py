"""Nobody gives more rights than they have: the guard on roles and bindings."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.api.admission.chain import Review
from sandbox.api.auth.rbac import (
    CLUSTER_ROLES,
    GROUP,
    RESOURCES,
    ROLES,
    Ask,
    Authorizer,
    rule_allows,
)
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, name_of


def _pieces(rule: Obj) -> Iterable[Ask]:
    """A rule taken apart into single questions."""
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield Ask(verb, path=path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                plain, _, sub = resource.partition("/")
                for name in rule.get("resourceNames") or ("",):
                    yield Ask(verb, group, plain, sub, name=name)


class EscalationGuard:
    """Admission: nobody grants what they do not hold, unless they may `escalate` roles or `bind` the role."""

    resources = RESOURCES

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def mutate(self, review: Review) -> None:
        """Changes nothing."""

    def validate(self, review: Review) -> None:
        """403 with the missing rules."""
        if review.operation == "DELETE" or review.user.is_admin():
            return
        plural = review.resource.partition(".")[0]
        if review.resource in (ROLES, CLUSTER_ROLES):
            verb, name, rules = "escalate", review.name, review.obj.get("rules") or []
            ask = Ask(verb, GROUP, plural, namespace=review.namespace, name=name)
        else:
            reference = review.obj["roleRef"]
            rules = self._authorizer.role_rules(reference, review.namespace)
            ask = Ask(
                "bind",
                GROUP,
                f"{reference['kind'].lower()}s",
                namespace=review.namespace,
                name=reference["name"],
            )
        if self._authorizer.allows(review.user, ask):
            return
        held = self._authorizer.grants(review.user).rules(review.namespace)
        missing = [
            rule
            for rule in rules
            if not all(any(rule_allows(own, piece) for own in held) for piece in _pieces(rule))
        ]
        if missing:
            quoted = " ".join(f'"{group}"' for group in review.user.groups)
            who = f'user "{review.user.name}" (groups=[{quoted}])'
            why = f"{who} is attempting to grant RBAC permissions not currently held:\n" + "\n".join(
                _show(rule) for rule in missing
            )
            raise errors.forbidden(plural, GROUP, name_of(review.obj), why)


def _show(rule: Obj) -> str:
    names = (
        ("apiGroups", "APIGroups"),
        ("resources", "Resources"),
        ("resourceNames", "ResourceNames"),
        ("nonResourceURLs", "NonResourceURLs"),
        ("verbs", "Verbs"),
    )
    listed = [
        "{}:[{}]".format(label, " ".join(f'"{item}"' for item in rule[key]))
        for key, label in names
        if rule.get(key)
    ]
    return "{" + ", ".join(listed) + "}"
