"""What a notebook's IDE says of its own use: read from Jupyter's answers, and told in words. Pure.

The IDE is the tenant's: nothing of what it says is believed beyond a form, a number and a time that has been.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, Self, TypedDict

KERNELS = "/api/kernels?no_track_activity=1"
"""Asked like this it is no activity itself."""
STATUS = "/api/status"
BELIEVED = timedelta(minutes=15)
"""For so long an answer says what is; then it is unknown again."""
MOST_KERNELS = 1000
NO_ANSWER, NOT_JUPYTER, REFUSED = "no answer", "it does not speak Jupyter's API", "it refuses its token"
NOT_ASKED = "not asked yet"


class Kept(TypedDict):
    """An `Activity` as a row and a finding's evidence keep it."""

    answered_at: str
    kernels: int
    running: int
    tabs: int
    last_activity: str | None


@dataclass(frozen=True)
class Activity:
    """What it said at `answered_at`: `running` of its kernels run code, `tabs` are connected to them."""

    answered_at: datetime
    kernels: int
    running: int
    tabs: int
    last_activity: datetime | None

    def as_json(self) -> Kept:
        """See `of_json`."""
        last = self.last_activity
        return {
            "answered_at": self.answered_at.isoformat(),
            "kernels": self.kernels,
            "running": self.running,
            "tabs": self.tabs,
            "last_activity": last.isoformat() if last else None,
        }

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> Self:
        """What `as_json` made."""
        last = kept["last_activity"]
        return cls(
            datetime.fromisoformat(kept["answered_at"]),
            kept["kernels"],
            kept["running"],
            kept["tabs"],
            datetime.fromisoformat(last) if last else None,
        )


def read(kernels: Any, status: Any, now: datetime) -> Activity:
    """Jupyter's answers to KERNELS and STATUS; raises ValueError for anything else.

    RULE: where a kernel is, the kernels' own activity counts. The server's also counts the tab's own asking.
    """
    if not isinstance(kernels, list) or not isinstance(status, Mapping) or len(kernels) > MOST_KERNELS:
        raise ValueError(NOT_JUPYTER)
    states = [_text(each, "execution_state") for each in kernels]
    times = [_moment(_text(each, "last_activity"), now) for each in kernels]
    last = max(times) if times else _moment(_text(status, "last_activity"), now)
    tabs = sum(_count(each, "connections") for each in kernels)
    return Activity(now, len(states), states.count("busy"), tabs, last)


def believed(kept: Mapping[str, Any] | None, since: datetime | None, now: datetime) -> Activity | None:
    """What a row keeps, as far as it speaks of the present run, which began `since`, and is not too old."""
    if not kept or since is None or kept.get("problem"):
        return None
    found = Activity.of_json(kept)
    return found if since <= found.answered_at and now - found.answered_at <= BELIEVED else None


def problem(kept: Mapping[str, Any] | None) -> str:
    """Why nothing is known, where `believed` says so."""
    return str((kept or {}).get("problem") or NOT_ASKED)


def running_words(running: int, kernels: int) -> str:
    """`a kernel runs code`, `2 of 3 kernels run code`; "" where none does."""
    if not running:
        return ""
    return "a kernel runs code" if kernels == 1 else f"{running} of {kernels} kernels run code"


def words(found: Activity, idle_since: datetime | None, now: datetime) -> str:
    """As `A kernel runs code, no GPU use since 14:10 UTC.`; `idle_since` as metering found it."""
    if runs := running_words(found.running, found.kernels):
        unused = f", no GPU use since {_clock(idle_since, now)}" if idle_since else ""
        return f"{runs[0].upper()}{runs[1:]}{unused}."
    last = f"last activity {_clock(found.last_activity, now)}" if found.last_activity else "no activity yet"
    if not found.kernels:
        return f"No kernel, {last}."
    opened = "its kernel runs" if found.kernels == 1 else f"its {found.kernels} kernels run"
    tab = ", a tab is open" if found.tabs else ""
    return f"{opened[0].upper()}{opened[1:]} no code, {last}{tab}."


def _clock(at: datetime, now: datetime) -> str:
    at = at.astimezone(UTC)
    return f"{at:%H:%M} UTC" if at.date() == now.astimezone(UTC).date() else f"{at:%Y-%m-%d %H:%M} UTC"


def _text(body: Any, key: str) -> str:
    found = body.get(key) if isinstance(body, Mapping) else None
    return found if isinstance(found, str) else _unlike()


def _count(body: Mapping[str, Any], key: str) -> int:
    found = body.get(key)
    return found if isinstance(found, int) and 0 < found <= MOST_KERNELS else 0


def _moment(text: str, now: datetime) -> datetime:
    """Never later than now; raises ValueError for what is no time with a zone."""
    try:
        found = datetime.fromisoformat(text)
        return min(found.astimezone(UTC), now) if found.tzinfo else _unlike()
    except (ValueError, OverflowError):
        return _unlike()


def _unlike() -> NoReturn:
    raise ValueError(NOT_JUPYTER)
