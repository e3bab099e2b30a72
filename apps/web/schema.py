"""How REST describes itself (OpenAPI 3.1): what every operation has in common is said here once."""

from typing import Any, Literal

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

HEADER: Literal["header"] = "header"


class ProblemErrorSerializer(serializers.Serializer[Any]):
    """One wrong field or parameter."""

    pointer = serializers.CharField(
        required=False, help_text="JSON pointer into the body, such as #/spec/offer"
    )
    parameter = serializers.CharField(required=False, help_text="name of the query parameter")
    code = serializers.CharField()
    detail = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """RFC 9457, plus a stable code to switch on and a hint of what to do."""

    type = serializers.URLField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField(allow_null=True, help_text="urn:uuid:<request id>; null on 404")
    code = serializers.CharField()
    hint = serializers.CharField()
    errors = ProblemErrorSerializer(many=True)  # type: ignore[assignment]


class ApiSchema(AutoSchema):
    """Adds the problem answer and the common headers; what a view does not describe is a free object."""

    def get_override_parameters(self) -> list[Any]:
        """The headers that every operation takes or gives."""
        common = [
            OpenApiParameter("X-Request-Id", OpenApiTypes.UUID, HEADER, response=True),
            OpenApiParameter("RateLimit-Policy", OpenApiTypes.STR, HEADER, response=True),
            OpenApiParameter("RateLimit", OpenApiTypes.STR, HEADER, response=True),
        ]
        if self.method == "POST":
            common.append(
                OpenApiParameter("Idempotency-Key", OpenApiTypes.STR, HEADER, description="kept for 24 hours")
            )
        if self.method in getattr(self.view, "matched_methods", ()):
            common.append(
                OpenApiParameter(
                    "If-Match", OpenApiTypes.STR, HEADER, required=True, description="the ETag, or *"
                )
            )
        return common

    def get_operation_id(self) -> str:
        """A list and one of its objects are two operations: `tokens_list` and `tokens_retrieve`."""
        name: str = super().get_operation_id()
        is_list = self.method == "GET" and getattr(self.view, "lists", False)
        return name.removesuffix("_retrieve") + "_list" if is_list else name

    def get_request_serializer(self) -> Any:
        """A free object unless the view says more (with `extend_schema`)."""
        return OpenApiTypes.OBJECT if self.method in ("POST", "PUT", "PATCH") else None

    def get_response_serializers(self) -> Any:
        """A free object unless the view says more (with `extend_schema`)."""
        return OpenApiTypes.OBJECT if self.method != "DELETE" else None

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        problem = self._get_response_for_code(  # type: ignore[no-untyped-call]
            ProblemSerializer, "default", ["application/problem+json"]
        )
        return {**bodies, "default": {**problem, "description": "A problem; switch on its code."}}
