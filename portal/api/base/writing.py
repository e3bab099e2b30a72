"""What writing views share: a merge patch of an object's writable part, and the rehearsal of a write.

Knows no model: the caller brings the write and how its outcome looks.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from apps.errors import NotFound
from apps.transactions import whole
from apps.web.requests.rehearsals import rehearsal
from apps.web.shapes.bodies import Rehearsal
from portal.api.base.preconditions import Versioned, etag
from portal.api.base.waiting import wait_for
from portal.api.declared.queries import Flag

Row = TypeVar("Row")
DRY_RUN = Flag("dry_run", "The same checks and refusals; nothing is stored, and 200 says what would be.")


def merged(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON merge patch (RFC 7396): null removes, objects merge, everything else replaces."""
    kept = {name: value for name, value in document.items() if name not in patch}
    for name, value in patch.items():
        if isinstance(value, Mapping):
            old = document.get(name)
            kept[name] = merged(old if isinstance(old, Mapping) else {}, value)
        elif value is not None:
            kept[name] = value
    return kept


def document(request: Request) -> Mapping[str, Any]:
    """The body of a write: the parser has refused everything but an object."""
    body: Mapping[str, Any] = request.data  # type: ignore[assignment]
    return body


def as_sent(body: Mapping[str, Any]) -> dict[str, Any]:
    """An object as a client has it: what it may send back unchanged, times as text."""
    sent: dict[str, Any] = json.loads(json.dumps(body, cls=JSONEncoder))
    return sent


def rehearsed(result: Any, manifests: Sequence[Mapping[str, Any]] = ()) -> Rehearsal:
    """The answer to a dry run. What only a new workload has (price, fit, queue, alternatives) is null or
    empty.
    """
    return {
        "dry_run": True,
        "result": result,
        "price": None,
        "fit": None,
        "queue": None,
        "manifests": list(manifests),
        "alternatives": [],
        "warnings": [],
    }


def made(body: Mapping[str, Any], location: str, row: Versioned | None = None) -> Response:
    """201: the new object and where it is; with its ETag where the row has a generation."""
    tag = {"ETag": etag(row)} if row else {}
    return Response(body, status=201, headers={**tag, "Location": location})


def written(
    request: Request,
    write: Callable[[], Row],
    answer: Callable[[Row], Response],
    *,
    manifests: Callable[[Row], Sequence[Mapping[str, Any]]] = lambda _: (),
    told: Callable[[Row], Mapping[str, Any]] = lambda _: {},
) -> Response:
    """Write in one transaction and answer; with `?dry_run=true` the same checks and refusals, and nothing
    stored.

    `told` adds what else a rehearsal of this resource tells.
    """
    is_dry = DRY_RUN.of(request)
    with rehearsal() if is_dry else whole():
        row = write()
        # An action without fields has not looked at the body: one that is no JSON object undoes it here.
        # With DELETE a body means nothing (RFC 9110), so none is read.
        if request.method != "DELETE":
            _ = request.data
        response = answer(row)
        if is_dry:
            return Response({**rehearsed(response.data, manifests(row)), **told(row)})
        return response


def settled(
    request: Request,
    response: Response,
    *,
    reload: Callable[[str], Row],
    is_done: Callable[[Row], bool],
    body: Callable[[Row], Mapping[str, Any]],
) -> Response:
    """The answer to a write with `?wait=`: the object once its change is done or the time is over, 204 once
    it is gone. A rehearsal, a replay and an answer without an object stay as they are.

    Outside the transaction of the write, or its end would never be seen.
    """
    is_replay = response.has_header("Idempotency-Replayed")
    if "wait" not in request.query_params or is_replay or "id" not in (response.data or {}):
        return response
    try:
        row = wait_for(request, lambda: reload(str(response.data["id"])), is_done)
    except NotFound:
        return Response(status=204)
    response.data = body(row)
    return response
