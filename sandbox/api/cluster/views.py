"""Read-only REST paths that answer with something computed (Kueue's visibility).

Their content belongs to whoever registers them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sandbox.api.meta.objects import Obj

Handler = Callable[[dict[str, str], Mapping[str, str]], Obj]


class Views:
    """Path templates with their handlers, and the groups that discovery lists for them."""

    def __init__(self) -> None:
        self._routes: list[tuple[re.Pattern[str], Handler]] = []
        self.groups: dict[tuple[str, str], list[Obj]] = {}

    def get(self, template: str, handler: Handler) -> None:
        """Serve GET of a path with {named} parts; the handler gets them and the query."""
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(template))
        self._routes.append((re.compile(f"^{pattern}$"), handler))

    def group(self, group: str, version: str, resources: list[Obj]) -> None:
        """List a group in discovery (metav1.APIResource entries)."""
        self.groups[(group, version)] = resources

    def find(self, path: str) -> tuple[Handler, dict[str, str]] | None:
        """The handler of a path and the values of its named parts."""
        for pattern, handler in self._routes:
            match = pattern.match(path)
            if match:
                return handler, match.groupdict()
        return None
