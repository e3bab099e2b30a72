"""An answer that is the same for everybody until the process ends: made once, at its first request."""

import gzip
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers

_NEVER = re.compile(r"q=0(\.0*)?")


@dataclass(frozen=True)
class Form:
    """The bytes as one encoding has them, and their strong ETag."""

    body: bytes
    encoding: str = ""

    @cached_property
    def etag(self) -> str:
        """Of the bytes that are sent: two encodings are two representations."""
        return f'"{hashlib.blake2b(self.body, digest_size=8).hexdigest()}"'


class Kept:
    """What `make` answers, plain and gzipped; it is made once, however many ask at the same time."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._lock = Lock()
        self._forms: tuple[Form, Form] | None = None

    @property
    def forms(self) -> tuple[Form, Form]:
        """Plain and packed."""
        if self._forms is None:
            with self._lock:
                if self._forms is None:
                    plain = self._make()
                    self._forms = Form(plain), Form(gzip.compress(plain, mtime=0), "gzip")
        return self._forms

    def answer(self, request: HttpRequest, media: str) -> HttpResponseBase:
        """200 with the form that the caller takes, or 304 if that is what it has."""
        plain, packed = self.forms
        form = packed if takes_gzip(request.headers.get("Accept-Encoding", "")) else plain
        response = HttpResponse(form.body, content_type=media)
        response["ETag"], response["Cache-Control"] = form.etag, "public, no-cache"
        if form.encoding:
            response["Content-Encoding"] = form.encoding
        patch_vary_headers(response, ["Accept-Encoding"])
        return get_conditional_response(request, etag=form.etag, response=response) or response


def takes_gzip(given: str) -> bool:
    """Whether an Accept-Encoding allows gzip: named, or by `*`, and not with the weight 0."""
    weights: dict[str, str] = {}
    for each in given.lower().split(","):
        name, _, weight = each.replace(" ", "").partition(";")
        weights[name] = weight
    said = weights.get("gzip", weights.get("*"))
    return said is not None and not _NEVER.fullmatch(said)
