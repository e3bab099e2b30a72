"""REST verbs on stored kinds: turns a request into registry calls and the result into the form asked for.

Rules live in `registry`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson

from sandbox.api.http import listing
from sandbox.api.http.requests import Reply, Request, body_object, json_reply, parse_body
from sandbox.api.http.watching import Wish
from sandbox.api.managedfields import patches
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, copy_of, dump, meta
from sandbox.api.printers import tables
from sandbox.api.registry import deletion
from sandbox.api.registry.generic import Options
from sandbox.api.storage.store import Place
from sandbox.kinds.table import Kind

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

APPLY = ("application/apply-patch+yaml", "application/apply-patch+json")
_USUAL_WATCH = 1_800.0


def options_of(request: Request) -> Options:
    """How a request wants its write made."""
    dry = request.query.get("dryRun", "")
    if dry not in ("", "All"):
        problem = errors.unsupported("dryRun", [dry], ("All",))
        raise errors.invalid("CreateOptions", "meta.k8s.io", "", [problem])
    validation = request.query.get("fieldValidation") or "Warn"
    return Options(
        request.user,
        request.manager(),
        dry == "All",
        validation,
        request.info.subresource,
        request.flag("force"),
        trusted=False,
        warnings=request.warnings,
    )


class Rest:
    """The generic handlers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.registry = cluster, cluster.registry
        self.lister = listing.Lister(cluster.store)

    # -- form ------------------------------------------------------------------------------------------------

    def shown(
        self, request: Request, kind: Kind, obj: Obj, *, code: int = 200, body: bytes | None = None
    ) -> Reply:
        """One object as JSON, Table or metadata only."""
        if request.accepts("as=Table"):
            return json_reply(
                self._table(
                    request, kind, [obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
                ),
                code,
            )
        if (
            request.accepts("as=PartialObjectMetadata;")
            or request.accepts("as=PartialObjectMetadata,")
            or request.headers.get("accept", "").endswith("as=PartialObjectMetadata")
        ):
            return json_reply(_partial(obj), code)
        return Reply(code, body if body is not None else dump(obj))

    def _table(self, request: Request, kind: Kind, objects: list[Obj], metadata: Obj) -> Obj:
        include = request.query.get("includeObject", "Metadata")
        return tables.table(kind, objects, metadata=metadata, include=include, now=self.cluster.clock.now())

    def get(self, request: Request, kind: Kind) -> Reply:
        """One object."""
        entry = self.registry.entry(kind, request.info.namespace, request.info.name)
        return self.shown(request, kind, entry.obj, body=entry.full())

    def collection(self, request: Request, kind: Kind) -> Reply:
        """A collection: filtered, in pages, in the form asked for."""
        entries, metadata = self.lister.page(request, kind)
        if request.accepts("as=Table"):
            return json_reply(self._table(request, kind, [entry.obj for entry in entries], metadata))
        if request.accepts("as=PartialObjectMetadataList"):
            items = [_partial(entry.obj) for entry in entries]
            return json_reply(
                {
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata,
                    "items": items,
                }
            )
        # Lists of built-in kinds leave apiVersion and kind of their items out; custom resources keep them.
        bodies = b",".join(entry.body if kind.native else entry.full() for entry in entries)
        head = orjson.dumps(
            {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
        )
        return Reply(200, head[:-1] + b',"items":[' + bodies + b"]}")

    def create(self, request: Request, kind: Kind) -> Reply:
        """POST to a collection."""
        body = self._typed_body(request, kind)
        obj = self.registry.create(kind, request.info.namespace, body, options_of(request))
        return self.shown(request, kind, obj, code=201)

    @staticmethod
    def _typed_body(request: Request, kind: Kind) -> Obj:
        unrecognized = f"the object provided is unrecognized (must be of type {kind.kind}): "
        body = body_object(
            request.body, request.media(), what=f"{unrecognized}couldn't get version/kind; json parse error: "
        )
        missing = next((key for key in ("kind", "apiVersion") if not body.get(key)), None)
        if missing and not kind.native:
            text = request.body.decode("utf-8", "replace")
            name = "Kind" if missing == "kind" else missing
            raise errors.bad_request(f"{unrecognized}Object '{name}' is missing in '{text}' ({text})")
        return body

    def put(self, request: Request, kind: Kind) -> Reply:
        """Replace an object or its status."""
        body = self._typed_body(request, kind)
        info = request.info
        name = (body.get("metadata") or {}).get("name", info.name)
        if name != info.name:
            raise errors.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({info.name})"
            )
        obj = self.registry.update(
            kind, Place(info.namespace, info.name), lambda _: body, options_of(request)
        )
        return self.shown(request, kind, obj)

    def patch(self, request: Request, kind: Kind) -> Reply:
        """Any of the four patch forms."""
        info, media, options = request.info, request.media(), options_of(request)
        place = Place(info.namespace, info.name)
        if media in APPLY:
            if not request.query.get("fieldManager"):
                problem = errors.required("fieldManager", "is required for apply patch")
                raise errors.invalid("PatchOptions", "meta.k8s.io", "", [problem])
            obj, created = self.registry.apply(kind, place, body_object(request.body, media), options)
            return self.shown(request, kind, obj, code=201 if created else 200)
        if request.flag("force"):
            problem = errors.field_forbidden("force", "may not be specified for non-apply patch")
            raise errors.invalid("PatchOptions", "meta.k8s.io", "", [problem])
        obj = self.registry.update(kind, place, patcher(kind, media, request.body), options)
        return self.shown(request, kind, obj)

    def delete(self, request: Request, kind: Kind) -> Reply:
        """DELETE of one object."""
        asked = deletion.Deletion.parse(self._delete_options(request), request.query)
        place = Place(request.info.namespace, request.info.name)
        answer, _ = deletion.delete(self.registry, kind, place, asked=asked, options=options_of(request))
        return json_reply(answer) if answer["kind"] == "Status" else self.shown(request, kind, answer)

    def delete_collection(self, request: Request, kind: Kind) -> Reply:
        """DELETE of everything that matches."""
        asked = deletion.Deletion.parse(self._delete_options(request), request.query)
        entries, metadata = self.lister.page(request, kind)
        for entry in entries:
            deletion.delete(
                self.registry, kind, listing.place_of(entry), asked=asked, options=options_of(request)
            )
        items = [
            {key: value for key, value in entry.obj.items() if key not in ("kind", "apiVersion")}
            for entry in entries
        ]
        return json_reply(
            {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata, "items": items}
        )

    @staticmethod
    def _delete_options(request: Request) -> Obj:
        return body_object(request.body, request.media()) if request.body.strip() else {}

    # -- watch -----------------------------------------------------------------------------------------------

    def wish(self, request: Request, kind: Kind) -> Wish:
        """What a watch request asks for."""
        asked = request.query.get("resourceVersion", "")
        if asked and not asked.isdigit():
            raise errors.ApiError(500, f'strconv.ParseUint: parsing "{asked}": invalid syntax', reason="")
        self.lister.check(request)
        query = request.query
        timeout = float(query.get("timeoutSeconds") or _USUAL_WATCH)
        initial = query.get("sendInitialEvents") in ("true", "1")
        if initial and query.get("resourceVersionMatch") != "NotOlderThan":
            problem = errors.field_forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )
            raise errors.invalid("ListOptions", "meta.k8s.io", "", [problem])
        return Wish(
            kind,
            request.info.namespace,
            listing.match(request, kind),
            query.get("resourceVersion", ""),
            request.flag("allowWatchBookmarks"),
            timeout,
            initial,
        )

    def render(self, request: Request, kind: Kind) -> Callable[[Obj, bytes], bytes]:
        """How a watch shows each object."""
        if request.accepts("as=Table"):
            return lambda obj, _body: dump(
                self._table(
                    request,
                    kind,
                    [obj] if "creationTimestamp" in obj["metadata"] else [],
                    {"resourceVersion": obj["metadata"].get("resourceVersion", "")},
                )
            )
        if request.accepts("as=PartialObjectMetadata"):
            return lambda obj, _body: dump(_partial(obj))
        return lambda _obj, body: body


def _partial(obj: Obj) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def patcher(kind: Kind, media: str, raw: bytes) -> Callable[[Obj], Obj]:
    """The transformation that a patch body describes; 415 for an unknown media type, 400 for a broken
    patch.
    """
    forms: dict[str, Callable[[Obj, Obj], Obj]] = {
        "application/json-patch+json": patches.json_patch,
        "application/merge-patch+json": patches.merge_patch,
        "application/strategic-merge-patch+json": lambda live, patch: patches.strategic(
            live, patch, kind.schema
        ),
    }
    if not kind.native:
        forms.pop("application/strategic-merge-patch+json")
    if media not in forms:
        listed = (
            f"the body of the request was in an unknown format - accepted media types include: "
            f"{', '.join(forms)},"
            f" {APPLY[0]}"
        )
        known = media.startswith("application/strategic")
        raise errors.ApiError(
            415, listed if known else "415: Unsupported Media Type", details=None if known else {}
        )
    patch = parse_body(raw, media, what="error decoding patch: ")
    if media != "application/json-patch+json" and not isinstance(patch, dict):
        raise errors.bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}"
        )

    def transform(live: Obj) -> Obj:
        result: Obj = copy_of(forms[media](live, patch))
        if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
            raise errors.bad_request("the patch does not leave an object with metadata")
        meta(result).setdefault("name", live["metadata"]["name"])
        return result

    return transform
