"""REST's own description: the OpenAPI document, and the page that people read it on."""

import json
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiJsonRenderer2
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.web.kept import Kept


def made() -> bytes:
    """The document, from the declarations."""
    document: Any = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    return json.dumps(document, default=str, ensure_ascii=False, separators=(",", ":")).encode()


DOCUMENT = Kept(made)


class DescriptionView(APIView):
    """The OpenAPI document, for anybody: made once per process."""

    schema = None
    permission_classes = (AllowAny,)
    authentication_classes = ()
    renderer_classes = (OpenApiJsonRenderer, OpenApiJsonRenderer2)

    def get(self, request: Request) -> HttpResponseBase:
        """By either media type of OpenAPI; 304 to who has it."""
        return DOCUMENT.answer(request, str(request.accepted_renderer.media_type))
