"""ETags: the generation of an object, and `If-Match` against lost updates."""

from typing import Protocol

from rest_framework.request import Request

from apps.errors import PreconditionFailed
from apps.web.refusals import PreconditionRequired


class Versioned(Protocol):
    """Anything whose writable fields are counted."""

    generation: int


def etag(row: Versioned) -> str:
    """The generation in quotes: `"3"`."""
    return f'"{row.generation}"'


def require_match(request: Request, generation: int, *, required: bool = True) -> None:
    """Refuse a change whose `If-Match` names another generation (412) or, where required, is absent (428).

    `*` matches any. Call it on the locked row: between the check and the write nobody else may write.
    """
    given = request.headers.get("If-Match")
    if given is None:
        if required:
            raise PreconditionRequired(f'The object is at "{generation}".')
        return
    wanted = {tag.strip().removeprefix("W/") for tag in given.split(",")}
    if "*" not in wanted and f'"{generation}"' not in wanted:
        raise PreconditionFailed(f'If-Match is {given}; the object is at "{generation}".')
