"""Reads what a client sends: its kind and place, and for an apply the fields it declares. Stores nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandbox.api.managedfields.fieldsets import element_key, show_path
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, name_of, namespace_of
from sandbox.api.schema import shaping
from sandbox.api.schema.structural import Node
from sandbox.api.storage.store import Place
from sandbox.kinds.table import Kind

if TYPE_CHECKING:
    from sandbox.api.registry.generic import Options


def check_type(kind: Kind, body: Obj) -> None:
    """400 when a body is of another kind than its path."""
    version, name = body.get("apiVersion", kind.api_version), body.get("kind", kind.kind)
    if name != kind.kind and version == kind.api_version and kind.native:
        group = kind.group.partition(".")[0] or "core"
        raise errors.bad_request(
            f'{name} in version "{kind.version}" cannot be handled as a {kind.kind}: converting '
            f"({kind.version}.{name}) "
            f"to ({group}.{kind.kind}): unknown conversion"
        )
    if version != kind.api_version or name != kind.kind:
        raise errors.bad_request(
            f"the API version in the data ({version}, Kind={name}) does not match the expected API"
            " version "
            f"({kind.api_version}, Kind={kind.kind})"
        )


def place_in(kind: Kind, namespace: str, metadata: Obj) -> None:
    """Put an object into the namespace of its path; 400 when it names another."""
    if not kind.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", namespace) != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def configuration(kind: Kind, place: Place, body: Obj, options: Options) -> Obj:
    """The applied object as a tree of intent: pruned and typed, without defaults."""
    if not body.get("apiVersion") or not body.get("kind"):
        group, _, version = str(body.get("apiVersion", "")).rpartition("/")
        raise errors.bad_request(f"invalid object type: {group}/{version}, Kind={body.get('kind', '')}")
    check_type(kind, body)
    shaper = shaping.Shaper(native=kind.native, keep_empty=True)
    metadata = {**body.get("metadata", {})}
    if metadata.setdefault("name", place.name) != place.name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({place.name})"
        )
    if kind.namespaced:
        place_in(kind, place.namespace, metadata)
    metadata.pop("creationTimestamp", None)
    applied: Obj = shaper.shape({**body, "metadata": metadata}, kind.schema)
    if shaper.mistyped:
        path, value, node = shaper.mistyped[0]
        raise errors.ApiError(
            500,
            f"failed to create typed patch object ({_typed_name(kind, body)}): .{path}: expected "
            f"{node.type}, "
            f"got &{{{value}}}",
            reason="",
        )
    twice = duplicate(applied, kind.schema, "")
    if twice:
        raise errors.ApiError(
            500, f"failed to create typed patch object ({_typed_name(kind, body)}): {twice}", reason=""
        )
    if shaper.unknown:
        _undeclared(kind, body, shaper.unknown, options)
    return applied


def duplicate(value: Any, node: Node | None, path: str) -> str:
    """The first entry that an associative list holds twice."""
    if isinstance(value, dict) and node is not None:
        return next(
            (
                found
                for key, item in value.items()
                if (found := duplicate(item, node.field(key), f"{path}.{key}"))
            ),
            "",
        )
    if not isinstance(value, list) or node is None or node.list_type not in ("map", "set"):
        return ""
    keys = [element_key(item, node) for item in value]
    again = next((key for index, key in enumerate(keys) if key in keys[:index]), "")
    if again:
        return f"{path}: duplicate entries for key {show_path((again,))}"
    pairs = zip(keys, value, strict=True)
    return next(
        (found for key, item in pairs if (found := duplicate(item, node.items, path + show_path((key,))))), ""
    )


def _undeclared(kind: Kind, body: Obj, unknown: list[str], options: Options) -> None:
    if options.validation != "Strict" and not kind.native:
        options.warnings.extend(f'unknown field "{path}"' for path in unknown)
        return
    texts = [f".{path}: field not declared in schema" for path in unknown]
    joined = texts[0] if len(texts) == 1 else "errors:\n" + "\n".join(f"  {text}" for text in texts)
    raise errors.ApiError(
        500, f"failed to create typed patch object ({_typed_name(kind, body)}): {joined}", reason=""
    )


def _typed_name(kind: Kind, body: Obj) -> str:
    return f"{namespace_of(body)}/{name_of(body)}; {kind.group}/{kind.version}, Kind={kind.kind}"
