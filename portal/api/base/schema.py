"""How REST describes itself (OpenAPI 3.1): made of what the views declare (`portal.api.declared.declaring`).

The query comes from the parameters that read it, answers from the TypedDicts that their builders return,
request bodies from the serializers that check them, refusals from `apps.web.problems.codes`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentIdentity, ResolvedComponent

from apps.web.problems.codes import CODES
from apps.web.shapes.bodies import Problem, Rehearsal
from apps.web.shapes.typed import Schema, Shapes, doc_of, name_of
from portal.api.declared import refusing
from portal.api.declared.declaring import JSON, Answer, Operation, operation_of

PROBLEM_MEDIA = "application/problem+json"
HEADERS: dict[str, tuple[str, bool]] = {
    "X-Request-Id": ("The request's id, made by the server; quote it when you report a failure.", True),
    "RateLimit-Policy": ('The quota of the credential, such as `"token";q=600;w=60`.', False),
    "RateLimit": ("What is left of it, and when it is full again.", False),
    "ETag": (
        "The version of what is shown; for an object with a generation, send it back as If-Match.",
        True,
    ),
    "Location": ("Where the new object is.", True),
    "Idempotency-Replayed": ("`true` where this is the stored answer to the same key.", False),
    "Link": ('The next page, with rel="next", where there is one.', False),
    "Retry-After": ("How many seconds to wait before asking again.", False),
    "WWW-Authenticate": ("How to sign in.", True),
    "Log-Kept-At": ("Of lines that were kept of a run whose pods are gone: when that was.", False),
    "Content-Disposition": ("The file's name.", True),
}
"""Every header of an answer: what it says, and whether it is always there."""
COMMON = ("X-Request-Id", "RateLimit-Policy", "RateLimit")
REQUEST_HEADERS = {
    "Idempotency-Key": "Any text of up to 200 characters. For 24 hours the same key returns the same answer.",
    "If-Match": "The ETag of your last GET, or *.",
    "If-None-Match": "The ETag of what you have; the answer is 304 if nothing changed.",
}
IDEMPOTENCY_KEY = {"type": "string", "minLength": 1, "maxLength": 200}
"""The text that `apps.web.requests.idempotency` takes."""


class ApiSchema(AutoSchema):
    """Describes an operation by its declaration."""

    @property
    def declared(self) -> Operation:
        """What the method declares; every method does (tests/web/test_declared.py)."""
        found = operation_of(self.view, self.method)
        if found is None:
            raise LookupError(f"{type(self.view).__name__} declares nothing of {self.method}")
        return found

    def get_operation_id(self) -> str:
        """A list and one of its objects are two operations: `tokens_list` and `tokens_retrieve`."""
        if self.declared.name:
            return self.declared.name
        name: str = super().get_operation_id()
        is_list = self.method == "GET" and getattr(self.view, "lists", False)
        return name.removesuffix("_retrieve") + "_list" if is_list else name

    def get_summary(self) -> str:
        """The first paragraph of the method's docstring."""
        return self._words().partition("\n\n")[0]

    def get_description(self) -> str:  # type: ignore[override]
        """The rest of it, else what the view says of the resource."""
        return self._words().partition("\n\n")[2] or doc_of(type(self.view))

    def _words(self) -> str:
        return doc_of(getattr(self.view, self.method.lower(), None))

    def get_request_serializer(self) -> Any:
        """The declared one."""
        return self.declared.takes

    def get_response_serializers(self) -> Any:
        """None: answers are made of TypedDicts."""
        return None

    def _get_parameters(self) -> list[Schema]:
        found: list[Schema] = super()._get_parameters()
        return [each for each in found if each["in"] == "path"] + self._headers() + self._query()

    @property
    def _is_kept(self) -> bool:
        """Whether the answer may be asked for again with its ETag (`preconditions.describe`)."""
        return self.method == "GET" and self.declared.answers[0].media == JSON

    def _query(self) -> list[Schema]:
        return [each.described() for each in getattr(self.view, "query", lambda _: ())(self.method)]

    def _headers(self) -> list[Schema]:
        known = dict(self.declared.reads)
        required = self.method in getattr(self.view, "matched_methods", ())
        if self.method == "POST" and getattr(self.view, "keyed", False):
            known["Idempotency-Key"] = REQUEST_HEADERS["Idempotency-Key"]
        if self._is_kept:
            known["If-None-Match"] = REQUEST_HEADERS["If-None-Match"]
        if required or self.method in getattr(self.view, "may_match", ()):
            known["If-Match"] = REQUEST_HEADERS["If-Match"]
        return [
            {
                "in": "header",
                "name": name,
                "description": words,
                "schema": IDEMPOTENCY_KEY if name == "Idempotency-Key" else {"type": "string"},
                **({"required": True} if name == "If-Match" and required else {}),
            }
            for name, words in known.items()
        ]

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:  # noqa: ARG002 - its signature
        found = self._successes(self.declared)
        refusals = refusing.by_status(self.view, self.method, self.declared, names_one="{" in self.path)
        for status, codes in refusals.items():
            found[str(status)] = self._refusal(codes)
        return found

    def _successes(self, declared: Operation) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for answer in (*declared.answers, *self._other_media(declared)):
            said = found.setdefault(str(answer.status), self._empty(answer))
            if answer.body is not None:
                said.setdefault("content", {})[answer.media] = {"schema": self._body(answer)}
            said["headers"] |= {name: self._header(name) for name in self._told(answer)}
        if self._is_kept:
            headers = {name: self._header(name) for name in (*COMMON, "ETag")}
            found["304"] = {"description": "Nothing changed since your copy.", "headers": headers}
        if any(each["name"] == "dry_run" for each in self._query()):
            self._rehearse(declared, found)
        return dict(sorted(found.items()))

    def _other_media(self, declared: Operation) -> list[Answer]:
        """The other forms of a read, by the view's renderers."""
        if not self._is_kept:
            return []
        media = [each.media_type for each in self.view.renderer_classes if each.media_type != JSON]
        headers = ("Link",) if declared.answers[0].is_list else ()
        return [Answer(200, str, each, headers=headers) for each in media if each]

    def _empty(self, answer: Answer) -> Schema:
        usual = {201: "Made.", 202: "Accepted; the cluster follows.", 204: "Done; nothing to show."}
        return {"description": usual.get(answer.status, "Done."), "headers": {}}

    def _told(self, answer: Answer) -> list[str]:
        kept = self.method == "POST" and getattr(self.view, "keyed", False)
        own = {
            "ETag": answer.etag or self._is_kept,
            "Location": answer.location,
            "Idempotency-Replayed": kept,
        }
        return [*COMMON, *(name for name, is_told in own.items() if is_told), *answer.headers]

    def _body(self, answer: Answer) -> Schema:
        item = self._shapes().of(answer.body)
        if not answer.is_list:
            return item
        name = f"{name_of(answer.body)}Page"
        return self._component("schemas", name, answer.body, lambda: _page(item))

    def _rehearse(self, declared: Operation, found: dict[str, Any]) -> None:
        """200 is also what `?dry_run=true` answers."""
        shown = next((each.body for each in declared.answers if each.body is not None), None)
        body = self._shapes().of(declared.rehearsal) if declared.rehearsal else self._rehearsal(shown)
        said = found.setdefault("200", {"description": "With `dry_run=true`.", "headers": {}})
        said["headers"] |= {name: self._header(name) for name in COMMON}
        # A rehearsal says nothing of an object that is there: what only that has may be missing.
        said["headers"] |= {name: _told(name) for name in said["headers"] if name not in COMMON}
        content = said.setdefault("content", {})
        if JSON in content:
            content[JSON] = {"schema": {"anyOf": [content[JSON]["schema"], body]}}
        else:
            content[JSON] = {"schema": body}

    def _rehearsal(self, shown: Any) -> Schema:
        result = self._shapes().of(shown)
        name = f"{name_of(shown)}Rehearsal" if shown else "EmptyRehearsal"

        def made() -> Schema:
            schema = self._shapes().members(Rehearsal)
            return {**schema, "properties": {**schema["properties"], "result": result}}

        return self._component("schemas", name, (Rehearsal, shown), made)

    def _refusal(self, codes: Sequence[str]) -> Schema:
        problem = self._component("schemas", "Problem", Problem, self._problem)

        def made() -> Schema:
            extra = {"Retry-After"} if CODES[codes[0]].status in (409, 429, 503) else set()
            extra |= {"WWW-Authenticate"} if CODES[codes[0]].status == 401 else set()
            return {
                "description": "\n".join(f"- `{code}`: {CODES[code].title}." for code in codes),
                "headers": {name: self._header(name) for name in (*COMMON, *sorted(extra))},
                "content": {PROBLEM_MEDIA: {"schema": problem}},
                "x-problem-codes": list(codes),
            }

        return self._component("responses", "-".join(codes), codes, made)

    def _problem(self) -> Schema:
        return {**self._shapes().members(Problem), "additionalProperties": True}

    def _header(self, name: str) -> Schema:
        made = {**_told(name), **({"required": True} if HEADERS[name][1] else {})}
        return self._component("headers", name, name, lambda: made)

    def shaped(self, shape: Any, *, is_patch: bool) -> Schema:
        """The component of a TypedDict, or of a merge patch (RFC 7396) into it."""
        if not is_patch:
            return self._shapes().of(shape)

        def made() -> Schema:
            return {k: v for k, v in self._shapes().members(shape).items() if k != "required"}

        return self._component("schemas", f"{name_of(shape)}Patch", (shape, "patch"), made)

    def _shapes(self) -> Shapes:
        return Shapes(lambda name, shape, make: self._component("schemas", name, shape, make))

    def _component(
        self,
        kind: Literal["schemas", "responses", "headers"],
        name: str,
        identity: Any,
        make: Callable[[], Schema],
    ) -> Schema:
        """A reference to a component, made at its first use."""
        component = ResolvedComponent(name=name, type=kind, object=ComponentIdentity(identity))  # type: ignore[no-untyped-call]
        if component not in self.registry:
            self.registry.register(component)
            component.schema = make()
        found: Schema = component.ref
        return found


def _told(header: str) -> Schema:
    return {"description": HEADERS[header][0], "schema": {"type": "string"}}


class ShapedField(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """A field of a request body that a TypedDict describes."""

    target_class = "portal.api.base.serializers.Shaped"
    match_subclasses = True

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Schema:  # noqa: ARG002 - its signature
        """The TypedDict's component; as a patch one of its own, without required members."""
        schema: Schema = auto_schema.shaped(self.target.shape, is_patch=self.target.is_patch)
        return schema


class DecimalNumber(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """A decimal that is taken: as text, which keeps every digit, or as a number."""

    target_class = "rest_framework.serializers.DecimalField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Schema:
        """With the bounds that the pattern of a text cannot say."""
        text: Schema = auto_schema._map_serializer_field(self.target, direction, bypass_extensions=True)
        bounds = {"minimum": self.target.min_value, "maximum": self.target.max_value}
        known = {name: float(bound) for name, bound in bounds.items() if bound is not None}
        return {**text, "type": ["string", "number"], **known}


def _page(item: Schema) -> Schema:
    return {
        "type": "object",
        "description": "A part of a list; `next` leads on.",
        "properties": {
            "items": {"type": "array", "items": item},
            "next": {
                "type": ["string", "null"],
                "format": "uri",
                "description": "The address of the next page; null on the last.",
            },
            "total": {"type": "integer", "description": "With `include_total=true`."},
        },
        "required": ["items", "next"],
    }
