"""The examples of the OpenAPI document: real answers of the access matrix's scene (`tests.matrix.examples`).

`examples.json` has, by operationId, the body that was sent (`takes`) and what was answered (`answers`: status ->
media type -> body).
"""

import json
from pathlib import Path
from typing import Any

from apps.web.declaring import JSON

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
    if "takes" in known and (body := operation.get("requestBody")):
        body["content"][JSON]["example"] = known["takes"]
    for status, bodies in known.get("answers", {}).items():
        content = operation["responses"].get(status, {}).get("content", {})
        for media in bodies.keys() & content.keys():
            content[media]["example"] = bodies[media]
