"""Taints, tolerations and node affinity: the matching rules the scheduler and Kueue share.

Pure predicates over plain mappings. Knows no node and no queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Rule = Mapping[str, Any]
_HARD = ("NoSchedule", "NoExecute")


def tolerates(toleration: Rule, taint: Rule) -> bool:
    """core/v1 ToleratesTaint: an empty effect or key matches all; Exists ignores the value."""
    effect = toleration.get("effect") or ""
    if effect and effect != taint.get("effect"):
        return False
    key = toleration.get("key") or ""
    if key and key != taint.get("key"):
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(taints: Iterable[Rule], tolerations: Iterable[Rule]) -> Rule | None:
    """The first hard taint that nothing tolerates."""
    known = list(tolerations)
    for taint in taints:
        if taint.get("effect") in _HARD and not any(tolerates(t, taint) for t in known):
            return taint
    return None


def taint_text(taint: Rule) -> str:
    """Kueue prints a taint as Go prints the struct: {key value effect time}."""
    return f"{{{taint.get('key', '')} {taint.get('value', '')} {taint.get('effect', '')} <nil>}}"


def expression_matches(expression: Rule, labels: Mapping[str, str]) -> bool:
    """One NodeSelectorRequirement against labels."""
    key, operator, values = expression["key"], expression["operator"], list(expression.get("values") or ())
    present = key in labels
    match operator:
        case "In":
            return present and labels[key] in values
        case "NotIn":
            return not present or labels[key] not in values
        case "Exists":
            return present
        case "DoesNotExist":
            return not present
        case _:
            return _compares(operator, labels.get(key, ""), values)


def _compares(operator: str, text: str, values: list[str]) -> bool:
    if not text.lstrip("-").isdigit() or len(values) != 1 or not values[0].lstrip("-").isdigit():
        return False
    return int(text) > int(values[0]) if operator == "Gt" else int(text) < int(values[0])


def required_terms(affinity: Mapping[str, Any]) -> list[Rule]:
    """The ORed terms of required node affinity."""
    node = affinity.get("nodeAffinity") or {}
    return list(
        (node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    )


def node_matches(
    selector: Mapping[str, str], terms: Iterable[Rule], labels: Mapping[str, str], name: str = ""
) -> bool:
    """Match nodeSelector and required node affinity against a node's labels; no terms match every node."""
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    listed = list(terms)
    return not listed or any(_term_matches(term, labels, name) for term in listed)


def _term_matches(term: Rule, labels: Mapping[str, str], name: str) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    by_name = {"metadata.name": name}
    return all(expression_matches(e, labels) for e in expressions) and all(
        expression_matches(e, by_name) for e in fields
    )
