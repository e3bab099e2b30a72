"""What PATCH takes in the OpenAPI document: a merge patch leaves out whatever stays, at every depth.

drf-spectacular makes only the outermost members of such a body optional. Pure but for the document's form.
"""

from typing import Any

Part = dict[str, Any]

PREFIX = "Patched"
_PLACE = "#/components/schemas/"


def loosen(result: Part, **_: Any) -> Part:
    """The document with objects inside of a PATCH's body as optional as the body itself: a hook of
    drf-spectacular.
    """
    schemas = result["components"]["schemas"]
    for name in [each for each in schemas if _is_patch(each)]:
        _loosen(schemas, schemas[name])
    return result


def _loosen(schemas: Part, schema: Part) -> None:
    for member in schema.get("properties", {}).values():
        for part in (member, *member.get("allOf", ()), *member.get("oneOf", ())):
            name = part.get("$ref", "").removeprefix(_PLACE)
            if "properties" in schemas.get(name, {}) and not _is_patch(name):
                part["$ref"] = _PLACE + _loosened(schemas, name)


def _is_patch(name: str) -> bool:
    """As drf-spectacular names the body of a PATCH, and `portal.api.base.schema` a TypedDict's patch."""
    return name.startswith(PREFIX) or name.endswith("Patch")


def _loosened(schemas: Part, name: str) -> str:
    """The name of the component that is as optional; made once."""
    loose = PREFIX + name
    if loose not in schemas:
        schema = schemas[name]
        members = {key: dict(value) for key, value in schema["properties"].items()}
        schemas[loose] = {k: v for k, v in schema.items() if k != "required"} | {"properties": members}
        _loosen(schemas, schemas[loose])
    return loose
