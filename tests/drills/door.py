"""A gateway for drills: one that misbehaves on demand, around any other."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from apps.cluster.gateway.port import Gateway
from apps.cluster.specs import Body, Manifest, ObjectRef, ref_of


class Killed(BaseException):
    """The process ends here. Not an Exception, so that nothing of the product can catch it."""


Before = Callable[["Write"], None]
After = Callable[["Write", Any], Any]


@dataclass(frozen=True)
class Write:
    """One mutating call: `number` counts the calls of this verb on this kind, from 1."""

    verb: str
    ref: ObjectRef
    number: int

    @property
    def point(self) -> str:
        """Its name in an enumeration, the same in every run."""
        return f"{self.verb} {self.ref.kind} {self.number}"


def nothing(write: Write) -> None:
    """Let the call through."""


def _as_is(write: Write, answer: Any) -> Any:
    return answer


@dataclass
class Meddler:
    """A `Gateway` that calls `before` and `after` around every mutating call and remembers the calls."""

    inner: Gateway
    before: Before = nothing
    after: After = _as_is
    writes: list[Write] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def apply(self, manifest: Manifest, *, force: bool = False, dry_run: bool = False) -> Body:
        if dry_run:
            return self.inner.apply(manifest, force=force, dry_run=True)
        write = self._note("force" if force else "apply", ref_of(manifest))
        self.before(write)
        answer: Body = self.after(write, self.inner.apply(manifest, force=force))
        return answer

    def merge(self, ref: ObjectRef, changes: Manifest, *, resource_version: str) -> Body:
        write = self._note("merge", ref)
        self.before(write)
        done = self.inner.merge(ref, changes, resource_version=resource_version)
        answer: Body = self.after(write, done)
        return answer

    def delete(self, ref: ObjectRef, *, uid: str) -> bool:
        write = self._note("delete", ref)
        self.before(write)
        return bool(self.after(write, self.inner.delete(ref, uid=uid)))

    def get(self, ref: ObjectRef) -> Body | None:
        return self.inner.get(ref)

    def look(self, ref: ObjectRef) -> Body | None:
        return self.inner.look(ref)

    def list(self, kind: str, *, label_selector: str = "") -> tuple[list[Body], str]:
        return self.inner.list(kind, label_selector=label_selector)

    def page(self, *args: Any, **options: Any) -> NoReturn:
        raise NotImplementedError

    def watch(
        self, kind: str, resource_version: str, timeout_seconds: int, *, label_selector: str = ""
    ) -> NoReturn:
        raise NotImplementedError

    def pod_log(self, *args: Any, **options: Any) -> str:
        raise NotImplementedError

    def read_log(self, *args: Any, **options: Any) -> Iterator[bytes]:
        return self.inner.read_log(*args, **options)

    def stream_log(self, *args: Any, **options: Any) -> AsyncGenerator[Sequence[str], None]:
        raise NotImplementedError

    def server_version(self) -> str:
        return self.inner.server_version()

    def api_resources(self, api_version: str) -> frozenset[str]:
        return self.inner.api_resources(api_version)

    def forget(self) -> None:
        """Count from the beginning again."""
        self.writes.clear()
        self.counts.clear()

    def _note(self, verb: str, ref: ObjectRef) -> Write:
        number = self.counts[(verb, ref.kind)] = self.counts.get((verb, ref.kind), 0) + 1
        write = Write(verb, ref, number)
        self.writes.append(write)
        return write
