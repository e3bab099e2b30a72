"""The examples of the OpenAPI document: real answers, recorded by `tests.matrix.examples`.

`examples.json` has, by operationId, the body that was sent (`takes`) and what was answered (`answers`:
by status, then by media type).
"""

import json
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("examples.json")

Part = dict[str, Any]


def show(result: Part, **_: Any) -> Part:
    """The document with its examples: a hook of drf-spectacular."""
    known = json.loads(SOURCE.read_text())
    for item in result["paths"].values():
        for operation in item.values():
            _show(operation, known.get(operation["operationId"], {}))
    return result


def _show(operation: Part, known: Part) -> None:
    if "takes" in known:
        for said in operation.get("requestBody", {}).get("content", {}).values():
            said["example"] = known["takes"]
    for status, bodies in known.get("answers", {}).items():
        content = operation["responses"].get(status, {}).get("content", {})
        for media in bodies.keys() & content.keys():
            content[media]["example"] = bodies[media]
