"""The admission chain: what a hook sees and in which order hooks run.

The rules are in podsecurity, quota and the controllers' hooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from sandbox.api.meta.objects import Obj

if TYPE_CHECKING:
    from sandbox.api.cluster.client import Client
from sandbox.api.auth.users import User


@dataclass
class Review:
    """One write on its way into the store."""

    operation: str
    resource: str
    subresource: str
    namespace: str
    name: str
    obj: Obj
    old: Obj | None
    user: User
    dry_run: bool
    now: datetime
    client: Client
    warnings: list[str] = field(default_factory=list)


class AdmissionHook(Protocol):
    """A rule on writes. `resources` names what it sees; {"*"} is everything."""

    resources: frozenset[str]

    def mutate(self, review: Review) -> None:
        """Edit review.obj in place."""
        ...

    def validate(self, review: Review) -> None:
        """Raise ApiError to refuse."""
        ...


def _concerned(hooks: Sequence[AdmissionHook], review: Review) -> list[AdmissionHook]:
    return [hook for hook in hooks if "*" in hook.resources or review.resource in hook.resources]


def mutate(hooks: Sequence[AdmissionHook], review: Review) -> None:
    """Let every concerned hook edit the object."""
    for hook in _concerned(hooks, review):
        hook.mutate(review)


def validate(hooks: Sequence[AdmissionHook], review: Review) -> None:
    """Let every concerned hook judge the object."""
    for hook in _concerned(hooks, review):
        hook.validate(review)
