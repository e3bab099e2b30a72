"""What a simulated service answers: a page, a health check, a stand-in for OpenAI's API. No model runs."""

from __future__ import annotations

from datetime import datetime
from html import escape

import orjson

from sandbox.api.meta.objects import Obj

PORT = "http"
"""How the port of a service is named."""
TITLE = "<!doctype html><title>Simulated service</title><h1>Simulated service</h1>"


def is_served_by(pod: Obj) -> bool:
    """Whether it is a replica of a service, and no notebook."""
    ports = [port for each in pod["spec"]["containers"] for port in each.get("ports") or ()]
    return any(port.get("name") == PORT for port in ports)


def answer(pod: Obj, path: str, now: datetime) -> tuple[int, str, bytes]:
    """See `PortSource.answer`."""
    name, spec = pod["metadata"]["name"], pod["spec"]["containers"][0]
    model = {"id": "simulated", "object": "model", "created": int(now.timestamp()), "owned_by": "sandbox"}
    match path:
        case "/":
            words = escape(f"{name} on {pod['spec'].get('nodeName', '')} runs {spec['image']}.")
            return 200, "text/html; charset=utf-8", f"{TITLE}<p>{words}</p>".encode()
        case "/v1/models":
            return _json({"object": "list", "data": [model]})
        case "/v1/chat/completions" | "/v1/completions":
            words = f"A simulated answer of {name}: no model runs here."
            message = {"role": "assistant", "content": words}
            choice = {"index": 0, "message": message, "text": words, "finish_reason": "stop"}
            usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
            return _json({"id": name, "object": "chat.completion", "model": "simulated",
                          "created": model["created"], "choices": [choice], "usage": usage})  # fmt: skip
    if path.endswith("/health"):
        return 200, "text/plain; charset=utf-8", b"ok\n"
    return 404, "text/plain; charset=utf-8", b"The simulated service has no such path.\n"


def _json(body: Obj) -> tuple[int, str, bytes]:
    return 200, "application/json", orjson.dumps(body)
