"""One object of REST: what its GET, PUT, PATCH and DELETE share, and the acts on it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.base.preconditions import Versioned, etag, require_match
from portal.api.base.serializers import ReasonSerializer, StrictSerializer
from portal.api.base.views import ApiView, idempotent
from portal.api.base.writing import as_sent, document, merged, settled, written
from portal.api.declared.declaring import answers, refuses, rehearses, takes

Body = Mapping[str, Any]
Row = TypeVar("Row")
View = TypeVar("View", bound="type[DocumentView[Any]]")
Verb = TypeVar("Verb", bound="type[VerbView[Any]]")


class ObjectView(ApiView, Generic[Row]):
    """One object. A subclass says where its row is, who may write it and how it looks; `documents` and `acts`
    declare what a write takes.
    """

    takes: ClassVar[type[StrictSerializer]]
    find: ClassVar[Callable[..., Any]]
    """The selector: of the actor and the key, where needed with `lock`; raises NotFound."""
    body: ClassVar[Callable[..., Body]]

    def found(self, key: str, *, lock: bool = False) -> Row:
        """The row of an address, if the caller sees it."""
        find = type(self).find
        row: Row = find(self.actor, key, lock=True) if lock else find(self.actor, key)
        return row

    def require(self, row: Row) -> None:
        """Raises NotAllowed unless the caller may write it."""
        raise NotImplementedError

    def shown(self, row: Row) -> Body:
        """How it looks for the caller."""
        return type(self).body(row)

    def answer(self, row: Row, status: int = 200) -> Response:
        """The object, with its ETag where writes need one."""
        headers = {"ETag": etag(cast("Versioned", row))} if self.matched_methods or self.may_match else {}
        return Response(self.shown(row), status=status, headers=headers)


class DocumentView(ObjectView[Row]):
    """An object of which PUT replaces the writable part and PATCH merges into it (RFC 7396)."""

    manifests: ClassVar[Callable[..., Sequence[Body]]] = staticmethod(lambda _row: ())
    """What a change would apply to the cluster."""
    is_done: ClassVar[Callable[..., bool]] = staticmethod(lambda _row: True)
    """What `?wait=` waits for."""
    matched_methods: ClassVar[tuple[str, ...]] = ("PUT", "PATCH", "DELETE")

    def change(self, row: Row, asked: Body) -> Row:
        """The service that writes the checked document."""
        raise NotImplementedError

    def told(self, before: Row, after: Row) -> Body:  # noqa: ARG002 - most tell nothing
        """What else a rehearsal of a change tells."""
        return {}

    def matched(self, request: Request, key: str) -> Row:
        """The locked row, if the caller may write it and `If-Match` names its generation."""
        row = self.found(key, lock=True)
        self.require(row)
        if request.method in self.matched_methods:
            require_match(request, cast("Versioned", row).generation)
        return row

    def read(self, request: Request, key: str) -> Response:  # noqa: ARG002 - as `write`
        """GET."""
        return self.answer(self.found(key))

    def write(self, request: Request, key: str) -> Response:
        """PUT or PATCH."""

        def write() -> tuple[Row, Row]:
            row = self.matched(request, key)
            current, body = as_sent(self.shown(row)), document(request)
            if request.method == "PATCH":
                body = patched(self.takes(), current, body)
            return row, self.change(row, self.takes.checked(body, context={"current": current}))

        response = written(
            request,
            write,
            lambda both: self.answer(both[1]),
            manifests=lambda both: type(self).manifests(both[1]),
            told=lambda both: self.told(*both),
        )
        return self.settled(request, response)

    def remove(self, request: Request, key: str, remove: Callable[[Row], Row | None]) -> Response:
        """DELETE: 204, or 202 with the object while the cluster follows."""

        def answer(row: Row | None) -> Response:
            return Response(status=204) if row is None else self.answer(row, status=202)

        return written(request, lambda: remove(self.matched(request, key)), answer)

    def settled(self, request: Request, response: Response) -> Response:
        """With `?wait=`, the object once its change is done or the time is over."""
        return settled(request, response, reload=self.found, is_done=type(self).is_done, body=self.shown)


class VerbView(ObjectView[Row]):
    """One act on an object: `POST <object>/<verb>`. `If-Match` is optional where the object has an ETag."""

    takes: ClassVar[type[StrictSerializer]] = ReasonSerializer
    status: ClassVar[int] = 200
    locks: ClassVar[bool] = False
    """Whether the row is locked here; else the service does it."""
    secrets: ClassVar[tuple[str, ...]] = ()
    """Members of the answer that no repetition of the request shows again."""

    def act(self, row: Row, asked: Body) -> Row:
        """The service's word."""
        raise NotImplementedError

    def acted(self, request: Request, key: str) -> Response:
        """Do it, once per Idempotency-Key: who may is asked before the body is read."""

        def act() -> Row:
            row = self.found(key, lock=self.locks)
            self.require(row)
            asked = self.takes.checked(request.data)
            if self.may_match:
                require_match(request, cast("Versioned", row).generation, required=False)
            return self.act(row, asked)

        def once() -> Response:
            return written(request, act, lambda row: self.answer(row, self.status))

        return idempotent(request, once, secrets=self.secrets)


def writable(shape: StrictSerializer, shown: Body) -> dict[str, Any]:
    """The part of an object that its document may change, as it is now."""
    return {
        name: writable(field, shown[name])
        if isinstance(field, StrictSerializer) and isinstance(shown[name], Mapping)
        else shown[name]
        for name, field in shape.fields.items()
        if name in shown
    }


def patched(shape: StrictSerializer, shown: Body, patch: Body) -> dict[str, Any]:
    """The writable part of an object with a merge patch (RFC 7396). A null stays where its field cannot take
    it, or where there is no such field, so that the document is refused as in PUT.
    """
    body = writable(shape, {name: value for name, value in shown.items() if name not in patch})
    for name, value in patch.items():
        field, old = shape.fields.get(name), shown.get(name)
        if isinstance(value, Mapping):
            old = old if isinstance(old, Mapping) else {}
            if isinstance(field, StrictSerializer):
                body[name] = patched(field, old, value)
            else:
                body[name] = merged(old, value)
        elif value is not None or field is None or not field.allow_null:
            body[name] = value
    return body


def documents(
    shape: type[StrictSerializer],
    body: Any,
    *,
    refusals: tuple[str, ...] = (),
    rehearsal: Any = None,
    **words: str,
) -> Callable[[View], View]:
    """Gives a `DocumentView` its `get`, `put` and `patch`, those that `words` has a sentence for, with what
    they take, answer, refuse and rehearse.
    """

    def given(view: View) -> View:
        view.takes = shape
        shows = answers(200, body, etag=bool(view.matched_methods))
        for method, sentence in words.items():
            if method == "get":
                handler = shows(_handler(DocumentView.read, sentence))
            else:
                writes = refuses(*refusals)(_handler(DocumentView.write, sentence))
                handler = takes(shape)(rehearses(rehearsal)(shows(writes)))
            setattr(view, method, handler)
        return view

    return given


def acts(body: Any, *refusals: str, post: str) -> Callable[[Verb], Verb]:
    """Gives an `VerbView` its POST, by the sentence that describes it. What takes no body declares none."""

    def given(view: Verb) -> Verb:
        shows = answers(view.status, body, etag=bool(view.may_match))
        handler = shows(refuses(*refusals)(_handler(VerbView.acted, post)))
        takes_none = view.takes is StrictSerializer
        view.post = handler if takes_none else takes(view.takes)(handler)  # type: ignore[attr-defined]
        return view

    return given


def _handler(act: Callable[..., Response], words: str) -> Callable[..., Response]:
    def handler(self: ObjectView[Any], request: Request, key: str) -> Response:
        return act(self, request, key)

    handler.__doc__ = words
    return handler
