"""HTTP in and out: what was asked, which resource a path means, and the answer's bytes.

Decides nothing about objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson
import yaml

from sandbox.api.auth.users import User
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj

MAX_BODY = 3 * 1024 * 1024
PROTOBUF = "application/vnd.kubernetes.protobuf"
_YAML = ("application/yaml", "application/apply-patch+yaml", "text/yaml")
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@dataclass(frozen=True)
class Info:
    """What a path means: a resource request, or (without resource) a plain path."""

    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass
class Request:
    """One HTTP request, read whole."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    user: User = ANONYMOUS
    info: Info = field(default_factory=Info)
    warnings: list[str] = field(default_factory=list)

    def accepts(self, *words: str) -> bool:
        """Whether the Accept header holds all words in one of its choices."""
        return any(
            all(word in choice for word in words) for choice in self.headers.get("accept", "").split(",")
        )

    def media(self) -> str:
        """The body's media type, without parameters."""
        return self.headers.get("content-type", "").split(";")[0].strip()

    def flag(self, name: str) -> bool:
        """A boolean of the query."""
        return self.query.get(name, "") in ("true", "1", "True")

    def watches(self) -> bool:
        """Whether this is a watch."""
        return self.method == "GET" and self.flag("watch") and not self.info.name

    def manager(self) -> str:
        """The field manager: as given, else the first word of the user agent."""
        return (
            self.query.get("fieldManager")
            or self.headers.get("user-agent", "unknown").split("/")[0]
            or "unknown"
        )


@dataclass
class Reply:
    """One HTTP answer."""

    code: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    media: str = "application/json"


def json_reply(value: Any, code: int = 200) -> Reply:
    """An answer in JSON."""
    return Reply(code, orjson.dumps(value))


def in_yaml(request: Request, reply: Reply) -> None:
    """Turn a JSON answer into YAML for a client that asks for that alone."""
    if request.headers.get("accept", "").startswith("application/yaml") and reply.media == "application/json":
        reply.body, reply.media = yaml.safe_dump(orjson.loads(reply.body)).encode(), "application/yaml"


def error_reply(problem: errors.ApiError) -> Reply:
    """A Status."""
    reply = json_reply(problem.status(), problem.code)
    retry = (problem.details or {}).get("retryAfterSeconds")
    if retry:
        reply.headers["Retry-After"] = str(retry)
    return reply


def parse_query(raw: bytes) -> dict[str, str]:
    """The query; the last of repeated names counts."""
    return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True))


def _go_problem(body: bytes, problem: Exception) -> str:
    """Go's words for the commonest JSON mistake; ours for the others."""
    return (
        "unexpected end of JSON input"
        if "unexpected end" in str(problem) or not body.strip()
        else str(problem)
    )


def parse_body(
    body: bytes, media: str, *, what: str = "couldn't get version/kind; json parse error: "
) -> Any:
    """JSON or YAML; 400 when neither, 415 for anything else."""
    if media not in ("", "application/json", *_YAML) and not media.endswith("-patch+json"):
        raise errors.ApiError(
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, "
            f"application/yaml, {PROTOBUF}",
        )
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        if media not in _YAML:
            tail = f" ({body[:200].decode('utf-8', 'replace')})" if "unrecognized" in what else ""
            raise errors.bad_request(f"{what}{_go_problem(body, problem)}{tail}") from problem
    try:
        return yaml.load(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as problem:
        raise errors.bad_request(f"error parsing YAML: {problem}") from problem


def body_object(
    body: bytes, media: str, *, what: str = "couldn't get version/kind; json parse error: "
) -> Obj:
    """A body that must be an object."""
    value = parse_body(body, media, what=what)
    if not isinstance(value, dict):
        raise errors.bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal into Go value of type struct"
        )
    if not isinstance(value.get("metadata") or {}, dict):
        raise errors.bad_request(
            "json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta"
        )
    return value


def locate(path: str) -> Info:
    """Split a resource path; Info without resource for everything else."""
    parts = [unquote(part) for part in path.split("/") if part]
    if len(parts) >= 2 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Info()
    namespace = ""
    if (
        len(rest) >= 3
        and rest[0] == "namespaces"
        and not (len(rest) == 3 and rest[2] in ("status", "finalize"))
    ):
        namespace, rest = rest[1], rest[2:]
    if not rest:
        return Info()
    tail = [*rest, "", ""][:3]
    return Info(group, version, tail[0], namespace, tail[1], "/".join(rest[2:]))
