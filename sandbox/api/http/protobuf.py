"""Reads Kubernetes protobuf bodies into JSON: kubectl's `create` and `auth can-i` send nothing else.

Writes none.

Messages and field numbers are generated from the API's .proto files into data/messages.json.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from sandbox.api.meta import errors
from sandbox.api.meta.objects import timestamp
from sandbox.kinds.table import load

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_NO_MESSAGE = errors.ApiError(
    415, "this protobuf message is not simulated; use JSON (kubectl create -f FILE does)"
)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers with their raw values."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire == _BYTES:
            size, at = _varint(data, at)
            yield number, data[at : at + size]
            at += size
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            yield number, struct.unpack("<d" if size == 8 else "<f", data[at : at + size])[0]
            at += size
        else:
            raise errors.bad_request("the protobuf body is broken")


def _signed(value: int) -> int:
    """Varints carry negative numbers in two's complement of 64 bits."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _scalar(kind: str, raw: Any) -> Any:
    if kind == "string":
        return raw.decode()
    if kind == "bytes":
        return base64.b64encode(raw).decode()
    if kind == "bool":
        return bool(raw)
    return _signed(raw) if kind in ("int32", "int64") else raw


def _plain(kind: str, data: bytes) -> Any:
    """Messages whose JSON is not an object."""
    found = dict(_fields(data))
    name = kind.rpartition(".")[2]
    if name in ("Time", "MicroTime"):
        return timestamp(datetime.fromtimestamp(_signed(found.get(1, 0)), UTC))
    if name == "Quantity":
        return found.get(1, b"").decode()
    if name == "IntOrString":
        return found.get(3, b"").decode() if found.get(1) else _signed(found.get(2, 0))
    if name == "ExtraValue":
        return [raw.decode() for _, raw in _fields(data)]
    return orjson.loads(found.get(1, b"null") or b"null")


_PLAIN = ("ExtraValue", "Time", "MicroTime", "Quantity", "IntOrString", "FieldsV1", "RawExtension", "JSON")


def _value(kind: str, raw: Any) -> Any:
    if "." not in kind:
        return _scalar(kind, raw)
    return _plain(kind, raw) if kind.rpartition(".")[2] in _PLAIN else _message(kind, raw)


def _message(kind: str, data: bytes) -> dict[str, Any]:
    fields = load("messages").get(kind)
    if fields is None:
        raise _NO_MESSAGE
    found: dict[str, Any] = {}
    for number, raw in _fields(data):
        known = fields.get(str(number))
        if known is None:
            continue
        name, shape, inner = known
        if shape == "map":
            pair = dict(_fields(raw))
            found.setdefault(name, {})[pair.get(1, b"").decode()] = _value(inner, pair.get(2, b""))
        elif shape == "list":
            found.setdefault(name, []).append(_value(inner, raw))
        elif shape == "inline":
            found |= _message(inner, raw)
        else:
            found[name] = _value(inner, raw)
    return _without_zeros(found)


def _without_zeros(found: dict[str, Any]) -> dict[str, Any]:
    """Go writes zero values of plain fields; JSON from a client leaves empty ones out."""
    return {
        key: value
        for key, value in found.items()
        if value not in ("", {}, []) and not (key == "creationTimestamp" and not value)
    }


def to_json(body: bytes) -> bytes:
    """The JSON of a protobuf body (runtime.Unknown in its envelope); 415 for messages that are not known."""
    if not body.startswith(_MAGIC):
        raise errors.ApiError(
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json",
        )
    envelope = dict(_fields(body[len(_MAGIC) :]))
    about = {number: raw.decode() for number, raw in _fields(envelope.get(1, b""))}
    version, kind = about.get(1, ""), about.get(2, "")
    name = load("messages").get("kinds", {}).get(f"{version}/{kind}")
    if name is None:
        raise _NO_MESSAGE
    return orjson.dumps({"apiVersion": version, "kind": kind, **_message(name, envelope.get(2, b""))})
