"""Rules of DeviceClass and ResourceSlice that their schemas do not state.

Allocation is the scheduler's work.
"""

from __future__ import annotations

import re

from sandbox.api.meta.errors import FieldError, invalid_value, required
from sandbox.api.meta.objects import Obj, dig
from sandbox.api.validation.metadata_rules import LABEL_RULE, SUBDOMAIN_RULE, name_error

Errors = list[FieldError]
_EXTENDED = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_BOOLEAN = re.compile(
    r"==|!=|<|>|&&|\|\||!|\bin\b|^\s*(true|false)\s*$|\.(matches|startsWith|endsWith|contains|exists|all)\("
)


def _compiles(expression: str) -> str:
    """What is wrong with a selector: it must compile, and it must say yes or no."""
    from celpy import Environment
    from celpy.celparser import CELParseError

    try:
        Environment().compile(expression)
    except CELParseError:
        return "compilation failed: ERROR: <input>: Syntax error"
    return "" if _BOOLEAN.search(expression) else "must evaluate to bool"


def validate_class(obj: Obj) -> Errors:
    """Selectors are boolean CEL; an extended resource name has a domain that is not Kubernetes' own."""
    found: Errors = []
    for index, selector in enumerate(dig(obj, "spec", "selectors", default=[])):
        expression = dig(selector, "cel", "expression", default="")
        problem = _compiles(expression)
        if problem:
            found.append(invalid_value(f"spec.selectors[{index}].cel.expression", expression, problem))
    name = dig(obj, "spec", "extendedResourceName")
    if name is not None and (not _EXTENDED.match(name) or name.split("/")[0].endswith("kubernetes.io")):
        found.append(
            invalid_value("spec.extendedResourceName", name, "must be a valid extended resource name")
        )
    return found


def validate_slice(obj: Obj) -> Errors:
    """A slice has one place, a driver named like a domain, and devices whose names are labels and differ."""
    spec = obj.get("spec", {})
    found: Errors = []
    driver = name_error(str(spec.get("driver", "")), label=False, limit=63, path="spec.driver")
    if driver is not None:
        found.append(invalid_value("spec.driver", spec.get("driver", ""), SUBDOMAIN_RULE))
    places = [key for key in _PLACES if spec.get(key)]
    if len(places) != 1:
        listed = "`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"
        found.append(
            required("spec", f"exactly one of {listed} is required")
            if not places
            else invalid_value(
                "spec", None, f"exactly one of {listed} is required, but multiple fields are set"
            )
        )
    return found + _devices(spec)


def _devices(spec: Obj) -> Errors:
    found: Errors = []
    seen: set[str] = set()
    for index, device in enumerate(spec.get("devices") or ()):
        name = str(device.get("name", ""))
        if name_error(name, label=True, limit=63) is not None:
            found.append(invalid_value(f"spec.devices[{index}].name", name, LABEL_RULE))
        elif name in seen:
            found.append(
                FieldError("FieldValueDuplicate", f"spec.devices[{index}]", f'Duplicate value: "{name}"')
            )
        seen.add(name)
    return found
