"""Answers that have one form, whatever the client says it accepts."""

from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request


class AnyAccept(BaseContentNegotiation):
    """These answers have one form each, whatever the client says it accepts."""

    def select_parser(self, _request: Request, parsers: Any) -> Any:
        """The first."""
        return parsers[0]

    def select_renderer(self, _request: Request, renderers: Any, _format_suffix: Any = None) -> Any:
        """The first."""
        return renderers[0], renderers[0].media_type
