"""Lists: selectors, pages that all show one moment, and what a list may ask of versions.

Shows nothing itself.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import orjson

from sandbox.api.http.requests import Request
from sandbox.api.meta import errors
from sandbox.api.meta import selectors as meta_selectors
from sandbox.api.meta.objects import Obj
from sandbox.api.storage.store import Compacted, Entry, Place, Store
from sandbox.kinds.table import Kind

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a "
    "new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
    "the results. Continuing with the provided token results in an inconsistent list - objects that were "
    "created, modified, or deleted between the time the first chunk was returned and now may show up "
    "in the list."
)


def place_of(entry: Entry) -> Place:
    """Where an entry lives."""
    return Place(entry.obj["metadata"].get("namespace", ""), entry.obj["metadata"]["name"])


def match(request: Request, kind: Kind) -> Callable[[Obj], bool]:
    """The request's selectors as one test."""
    label_text, field_text = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    tests: list[Callable[[Obj], bool]] = []
    if label_text:
        wanted = meta_selectors.labels(label_text)
        tests.append(lambda obj: wanted(obj["metadata"].get("labels") or {}))
    if field_text:
        converts = not kind.native or len(kind.fields) > 2
        tests.append(meta_selectors.fields(field_text, kind.fields, converts=converts))
    return lambda obj: all(test(obj) for test in tests)


class Lister:
    """Answers list requests from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self, request: Request) -> None:
        """Refuse versions that are no number, lie ahead, or do not fit how they shall match."""
        asked, rule = request.query.get("resourceVersion", ""), request.query.get("resourceVersionMatch", "")
        if asked and not asked.isdigit():
            why = f'Invalid value: "{asked}": strconv.ParseUint: parsing "{asked}": invalid syntax'
            raise errors.bad_request(f"invalid resource version: resourceVersion: {why}")
        if rule and not asked and not request.flag("sendInitialEvents"):
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            problem = errors.field_forbidden("resourceVersionMatch", why)
            raise errors.invalid("ListOptions", "meta.k8s.io", "", [problem])
        if asked and int(asked) > self._store.version:
            text = f"Timeout: Too large resource version: {asked}, current: {self._store.version}"
            causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
            raise errors.ApiError(504, text, details={"causes": causes, "retryAfterSeconds": 1})

    def page(self, request: Request, kind: Kind) -> tuple[list[Entry], Obj]:
        """One page and its list metadata."""
        self.check(request)
        selected = bool(request.query.get("labelSelector") or request.query.get("fieldSelector"))
        test = match(request, kind)
        entries, version, start = self._moment(request, kind)
        limit = int(request.query.get("limit") or 0)
        found = [
            entry
            for entry in entries
            if (start is None or place_of(entry) >= start) and (not selected or test(entry.obj))
        ]
        metadata: Obj = {"resourceVersion": str(version), **({} if kind.native else {"continue": ""})}
        if limit and len(found) > limit:
            token = orjson.dumps(
                {"v": "meta.k8s.io/v1", "rv": version, "start": list(place_of(found[limit]))}
            )
            metadata["continue"] = base64.urlsafe_b64encode(token).decode().rstrip("=")
            if not selected:
                metadata["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        return found, metadata

    def _moment(self, request: Request, kind: Kind) -> tuple[list[Entry], int, Place | None]:
        """The entries to page through: of now, or of the version that a token or an exact match names."""
        space, token, start = request.info.namespace, request.query.get("continue", ""), None
        version, text = self._store.version, "The resourceVersion for the provided list is too old."
        if token:
            version, start = _resume(token)
            text = _TOO_OLD
        elif request.query.get("resourceVersionMatch") == "Exact":
            version = int(request.query.get("resourceVersion") or version)
        if version == self._store.version:
            return list(self._store.entries(kind.key, space)), version, start
        try:
            return self._store.entries_at(kind.key, version, space), version, start
        except Compacted as problem:
            raise errors.gone(text) from problem


def _resume(token: str) -> tuple[int, Place]:
    try:
        kept = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(kept["rv"]), Place(*kept["start"])
    except (ValueError, KeyError, TypeError) as problem:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {problem}") from problem
