"""What changed between two versions of a template, place by place. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.workloads.spec.field_reader import escaped
from apps.workloads.templates.rules.reading import as_json
from apps.workloads.templates.rules.rendering import Definition


@dataclass(frozen=True)
class Difference:
    """One place; None: it is not there."""

    pointer: str
    before: Any
    after: Any


def differences(before: Definition, after: Definition) -> list[Difference]:
    """In the order of their places. A parameter is found by its name, so that moving one changes nothing."""
    old, new = dict(_leaves(_whole(before), "")), dict(_leaves(_whole(after), ""))
    return [
        Difference(pointer, old.get(pointer), new.get(pointer))
        for pointer in sorted(old.keys() | new.keys())
        if old.get(pointer) != new.get(pointer)
    ]


def _whole(of: Definition) -> dict[str, Any]:
    named = {each.name: {k: v for k, v in as_json(each).items() if k != "name"} for each in of.parameters}
    return {"parameters": named, "workload": of.workload}


def _leaves(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _leaves(each, f"{at}/{escaped(str(key))}")
    else:
        yield at, value
