"""Which labels a workload may carry. Pure. They stay on our row: none reaches an object of the cluster."""

import re
from collections.abc import Mapping

from apps.cluster.objects import names
from apps.errors import FieldProblem
from apps.workloads.spec.field_reader import escaped
from apps.workloads.specs import SIMULATION_PREFIXES

MOST = 32
_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def is_key(text: str) -> bool:
    """Whether Kubernetes takes it as a label's key."""
    return _KEY.fullmatch(text) is not None


def problems_of(labels: Mapping[str, str], *, is_simulated: bool) -> list[FieldProblem]:
    """Rule: Kubernetes' form of label keys and values; domains of the product and the cluster are reserved.

    The simulator's own keys are let through on a simulated cluster alone, where they steer its pods.
    """
    wrong = []
    if len(labels) > MOST:
        wrong.append(FieldProblem("/labels", "out_of_range", f"At most {MOST} labels."))
    for key, value in labels.items():
        problem = _problem(key, value, is_simulated=is_simulated)
        if problem:
            wrong.append(FieldProblem(f"/labels/{escaped(key)}", *problem))
    return wrong


def _problem(key: str, value: str, *, is_simulated: bool) -> tuple[str, str] | None:
    if key.startswith(SIMULATION_PREFIXES):
        return None if is_simulated else ("reserved_name", "Only a simulated cluster accepts this label.")
    if names.is_reserved(key):
        return "reserved_name", "This domain belongs to the product or the cluster."
    if not is_key(key) or not names.is_label_value(value):
        return (
            "invalid_value",
            "Keys and values follow Kubernetes' label rules: letters, digits, -, _ and dots.",
        )
    return None
