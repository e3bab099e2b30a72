"""Calls to an API server as steps of a trace: what was done to which object, and the status of the answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from apps.cluster.errors import Rejected, Unreachable
from apps.cluster.specs import ObjectRef
from apps.web import spans
from apps.web.spans import Span

STATUS = "http.response.status_code"


class Call(NamedTuple):
    """`verb` as Kubernetes' audit log has it, but for `apply`, which is a patch there."""

    verb: str
    ref: ObjectRef


@contextmanager
def under_way(call: Call | None) -> Iterator[Span | None]:
    """What is said of it never holds the manifest nor the server's words. What is not there is no failure."""
    if call is None:
        yield None
        return
    kind, namespace, name = call.ref
    known = {"verb": call.verb, "kind": kind, "namespace.name": namespace, "name": name}
    given = {f"k8s.{key}": value for key, value in known.items() if value}
    with spans.step(f"{call.verb} {kind}", given) as span:
        try:
            yield span
        except Rejected as error:
            span.set({STATUS: error.status})
            if not error.is_absent:
                span.fail(error.reason)
            raise
        except Unreachable as error:
            span.fail(error.reason)
            raise
