"""What a web process makes before its first request, so that nobody waits for it (docs/decisions/0105).

It depends on the code and the settings alone: addresses, templates and REST's own document. No row is read.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django import forms
from django.conf import settings
from django.forms.renderers import get_default_renderer
from django.template.loader import get_template
from django.urls import get_resolver

from apps.web import collector
from portal.operate.tracing import starting

Message = Mapping[str, Any]


async def of_process(
    receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """ASGI's lifespan: the process takes connections once it is warm."""
    await receive()
    await sync_to_async(warm)()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await sync_to_async(starting.stop)()
    await send({"type": "lifespan.shutdown.complete"})


def warm() -> None:
    """Make it all, and take what stays from the collector: from then on it walks what requests make."""
    from portal.api.declared import description  # REST's own is there once Django is set up

    get_resolver().reverse_dict  # noqa: B018 - reading it imports every view
    # First: templates then take the 7 MB that making it leaves.
    _ = description.PAGE.forms
    for name in _templates(settings.BASE_DIR / "templates"):
        get_template(name)
    of_fields = get_default_renderer()
    for name in _templates(Path(forms.__file__).parent / "templates"):
        of_fields.get_template(name)
    collector.leave_out_what_stays()


def _templates(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.html"))]
