"""REST's own description: the OpenAPI document, and the page that people read it on."""

import json
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiJsonRenderer2
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from portal.api.declared.browsing import Document
from portal.api.declared.kept import Kept


def made() -> bytes:
    """The document of every route of the installation, from the declarations."""
    document: Any = SchemaGenerator(urlconf="portal.urls").get_schema(public=True)  # type: ignore[no-untyped-call]
    return json.dumps(document, default=str, ensure_ascii=False, separators=(",", ":")).encode()


DOCUMENT = Kept(made)


def shown() -> bytes:
    """The page of the document."""
    document = Document(json.loads(DOCUMENT.forms[0].body))
    tags = document.tags()
    context = {"tags": tags, "shapes": document.shapes(), "count": sum(len(each) for _, each in tags)}
    return render_to_string("api/page.html", context).encode()


PAGE = Kept(shown)


@require_safe
def page(request: HttpRequest) -> HttpResponseBase:
    """The document for people, for anybody: it needs no script and nothing from elsewhere."""
    return PAGE.answer(request, "text/html; charset=utf-8")


class DescriptionView(APIView):
    """The OpenAPI document, for anybody: made once per process."""

    schema = None
    permission_classes = (AllowAny,)
    authentication_classes = ()
    renderer_classes = (OpenApiJsonRenderer, OpenApiJsonRenderer2)

    def get(self, request: Request) -> HttpResponseBase:
        """In either media type of OpenAPI; 304 if the caller has it."""
        return DOCUMENT.answer(request, str(request.accepted_renderer.media_type))
