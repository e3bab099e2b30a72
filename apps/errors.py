"""The errors that every floor above may raise, in words a person can act on.

A surface never words a refusal itself: it maps these to HTML or problem+json (`apps.web.problems.answers`),
so that page and API say the same. Codes are those of the REST contract (docs/api.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_PROBLEMS = 100
"""How many wrong fields one refusal names: whoever sends more has another mistake."""
LONGEST_WORDS = 500


def clipped(text: str, longest: int = LONGEST_WORDS) -> str:
    """A text that came from outside, short enough to be said back."""
    return text if len(text) <= longest else f"{text[:longest]}..."


@dataclass(frozen=True)
class FieldProblem:
    """One wrong field: where (`pointer` is a JSON pointer such as `/spec/offer`), which rule, in words."""

    pointer: str
    code: str
    detail: str

    @property
    def sentence(self) -> str:
        """The problem with its place in front, as one sentence: `spec.memory: Not a quantity.`."""
        place = self.pointer.strip("/").replace("/", ".").replace("~1", "/").replace("~0", "~")
        end = "" if self.detail.endswith((".", "?", "!")) else "."
        return f"{place}: {self.detail}{end}" if place else f"{self.detail}{end}"

    @property
    def brief(self) -> "FieldProblem":
        """The same without what the caller sent at length."""
        return FieldProblem(clipped(self.pointer), self.code, clipped(self.detail))


class DomainError(Exception):
    """A refusal with a stable code, an HTTP status, what happened (`detail`) and what to do (`hint`)."""

    code = "internal_error"
    status = 500
    hint = "Try again. If it happens again, report the request id."

    def __init__(
        self, detail: str, *, hint: str | None = None, code: str | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint or type(self).hint
        self.code = code or type(self).code
        self.extra: Mapping[str, Any] = extra


class NotFound(DomainError):
    """Unknown, or not visible to the caller: the two are never told apart."""

    code, status, hint = "not_found", 404, "Check the id and the tenant."

    def __init__(self, detail: str = "There is nothing here that you may see.") -> None:
        super().__init__(detail)


class NotAllowed(DomainError):
    """The caller sees the thing but may not do this to it; the detail names the role that may."""

    code, status, hint = "not_allowed", 403, "Ask someone with the named role."


class OfferNotAllowed(DomainError):
    """The tenant's trust level or quota does not include this offer."""

    code, status, hint = "offer_not_allowed", 403, "Take another offer, or ask a platform engineer for quota."


class Invalid(DomainError):
    """The request is understood and wrong; every wrong field is named at once, up to `MOST_PROBLEMS`."""

    code, status, hint = "validation_failed", 422, "Correct the fields in errors."

    def __init__(self, problems: Sequence[FieldProblem], detail: str | None = None) -> None:
        self.problems = tuple(problem.brief for problem in problems[:MOST_PROBLEMS])
        rest = len(problems) - len(self.problems)
        told = detail or " ".join(problem.sentence for problem in self.problems)
        super().__init__(f"{told} And {rest} more." if rest else told)


class Conflict(DomainError):
    """The thing is not in a state in which this can be done; `code` says which conflict."""

    code, status, hint = "wrong_phase", 409, "Wait until it is in the named phase."


class AlreadyExists(Conflict):
    """The slug is taken."""

    code, hint = "already_exists", "Choose another slug."


class QuotaExceeded(DomainError):
    """It can never fit: more than guaranteed plus borrowable."""

    code, status, hint = "quota_exceeded", 409, "Ask for less, or ask a platform engineer for quota."


class DoesNotFitNow(DomainError):
    """It fits some day but not now, and the caller asked not to wait (`max_wait_seconds: 0`)."""

    code, status, hint = "does_not_fit_now", 409, "Wait, or take one of alternatives."


class PreconditionFailed(DomainError):
    """`If-Match` names an older generation."""

    code, status, hint = "precondition_failed", 412, "GET it again, redo the change and send the new ETag."


class ClusterUnavailable(DomainError):
    """The Kubernetes API does not answer. Live reads fail; what is asked is stored and applied later."""

    code, status = "cluster_unavailable", 503
    hint = "Try again. What you ask for meanwhile is stored and applied later."
