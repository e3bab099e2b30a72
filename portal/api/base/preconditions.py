"""Validators: `If-Match` prevents lost updates, `If-None-Match` avoids sending what the caller has.

An object's ETag is `"<generation>.<digest>"`. The generation counts writable changes: `If-Match` compares it
alone, so that a status that moved refuses nobody's change. The digest is that of what is shown:
`If-None-Match` compares the whole, so that a 304 never hides a status. What has no generation (a list, a
report) has the digest alone.
"""

import hashlib
import json
import re
from functools import partial
from typing import Protocol

from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from apps.errors import PreconditionFailed
from apps.web.problems.refusals import PreconditionRequired

READS = ("GET", "HEAD")
VARY = ("Authorization", "Cookie", "Accept")
DIGITS = 16
_TAG = re.compile(r'(?:W/)?("[^"]*")|(\*)')
_GENERATION = re.compile(r'"(\d+)(?:\.[0-9a-f]+)?"')


class Versioned(Protocol):
    """Anything whose writable fields are counted."""

    generation: int


def etag(row: Versioned) -> str:
    """The generation in quotes: `"3"`; the digest of what is shown joins it once that is known."""
    return f'"{row.generation}"'


def require_match(request: Request, generation: int, *, required: bool = True) -> None:
    """Refuse a change whose `If-Match` names another generation (412) or, where required, is absent (428),
    and one that wants the object not to be there (`If-None-Match: *`) or not to be this one (412).

    `*` matches any. Call it on the locked row: between the check and the write nobody else may write.
    """
    unwanted, given = request.headers.get("If-None-Match"), request.headers.get("If-Match")
    if unwanted is not None and _names(unwanted, generation):
        raise PreconditionFailed(f'If-None-Match is {unwanted}; the object is at "{generation}".')
    if given is None:
        if required:
            raise PreconditionRequired(f'The object is at "{generation}".')
        return
    if not _names(given, generation):
        raise PreconditionFailed(f'If-Match is {given}; the object is at "{generation}".')


def require_absent(request: Request) -> None:
    """Refuses a creation with `If-Match` (412): nothing matches what does not exist, not even `*`."""
    given = request.headers.get("If-Match")
    if given is not None:
        raise PreconditionFailed(f"If-Match is {given}; there is no such object.")


def describe(request: Request, response: HttpResponseBase) -> None:
    """Says whether the answer may be kept and, once it is rendered, its ETag; 304 if the caller has it.

    The caller may keep a read and ask for it again with `If-None-Match`; a write is never kept.
    """
    is_read = request.method in READS and response.status_code == 200
    is_kept = is_read and isinstance(response, Response) and not response.has_header("Cache-Control")
    if not response.has_header("Cache-Control"):
        response["Cache-Control"] = "private, no-cache" if is_kept else "no-store"
    if is_kept:
        patch_vary_headers(response, VARY)
    if isinstance(response, Response) and (is_kept or response.has_header("ETag")):
        response.add_post_render_callback(partial(_tagged, request, is_kept=is_kept))


def _tagged(request: Request, response: Response, *, is_kept: bool) -> None:
    generation = response.get("ETag", "").strip('"')
    if generation:
        # With sorted keys: a database may return stored keys in another order.
        shown = json.dumps(response.data, sort_keys=True, cls=JSONEncoder).encode()
    else:
        shown = response.content
    digest = hashlib.blake2b(shown, digest_size=DIGITS // 2).hexdigest()
    tag = response["ETag"] = f'"{generation}.{digest}"' if generation else f'"{digest}"'
    if is_kept and {tag, "*"} & _tags(request.headers.get("If-None-Match", "")):
        response.status_code, response.content = 304, b""
        del response["Content-Type"]


def _tags(given: str) -> set[str]:
    return {quoted or star for quoted, star in _TAG.findall(given)}


def _names(given: str, generation: int) -> bool:
    tags = _tags(given)
    found = (_GENERATION.fullmatch(tag) for tag in tags)
    return "*" in tags or str(generation) in {match[1] for match in found if match}
