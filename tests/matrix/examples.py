"""The examples of the OpenAPI document: what the scene's people are answered, with steady ids and times.

    RECORD_EXAMPLES=1 pytest tests/matrix/test_examples.py -k record

writes `apps/web/examples.json`: for each operation the body that was sent, and per status and media type the
first success that somebody got.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone

from apps.web.examples import SOURCE
from portal.api.declared.declaring import JSON
from tests import described
from tests.matrix import asking, routes
from tests.matrix.examples_by_hand import BY_HAND, ByHand, Like, Rehearsed
from tests.matrix.scene import Scene
from tests.matrix.table import Cell, Table, address, filled_body

ROLES = ("lead", "member", "manager", "platform")
"""Who is asked, the first who may first."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
START = datetime(2026, 11, 23, 9, tzinfo=UTC)
"""The time of every recording, as the examples have it."""
STEP = timedelta(minutes=5)
MOST_ITEMS, MOST_LETTERS, MOST_LINES = 2, 400, 3
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
SECRET = re.compile(
    r"\balt_\w+|-----BEGIN [^-]+-----.*?-----END [^-]+-----|(?<=/invite/)[\w-]+|(?<=[?]code=)[\w-]+",
    re.DOTALL,
)
DIGEST = re.compile(r"\b[0-9a-f]{32,}\b")
SUFFIX = re.compile(r"-(?=[a-z]*\d)[a-z0-9]{10}\b")
"""What makes the name of an object in a cluster its own."""
NAMES = {
    "optics": "vision", "imaging": "research", "h100-slice": "h100-mig-slice",
    "rosa": "ada", "leon": "grace", "yusra": "edsger",
}  # fmt: skip
"""The scene's names are what the matrix looks for where nobody may learn them: the examples have others."""
NAME = re.compile("|".join(NAMES))
HOST = re.compile(r"http://(?:testserver|127\.0\.0\.1:\d+)")

Examples = dict[str, Any]


class Steady:
    """Makes the answers of one operation the same in every recording."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._numbers: dict[str, int] = {}

    def of(self, value: Any) -> Any:
        """The value with steady ids and times, no secret, and no more of a list than shows its form."""
        if isinstance(value, dict):
            return {self._text(key): self.of(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.of(each) for each in value[:MOST_ITEMS]]
        if not isinstance(value, str):
            return value
        text = self._text(value)
        return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."

    def text(self, text: str) -> str:
        """The first lines of a text."""
        return self._text("".join(text.splitlines(keepends=True)[:MOST_LINES]))

    def _text(self, text: str) -> str:
        text = SECRET.sub("shown-once-and-never-again", text)
        text = DIGEST.sub(lambda found: "0" * len(found[0]), text)
        text = UUID.sub(self._id, TIME.sub(self._time, HOST.sub("https://allotment.example", text)))
        return SUFFIX.sub(lambda found: f"-{self._number(found[0]):010x}", text)

    def _id(self, found: re.Match[str]) -> str:
        return f"5f0c1e2a-0000-4000-8000-{self._number(found[0]):012x}"

    def _number(self, found: str) -> int:
        return self._numbers.setdefault(found, len(self._numbers) + 1)

    def _time(self, found: re.Match[str]) -> str:
        since = datetime.fromisoformat(found[0]) - self._now
        return f"{START + round(since / STEP) * STEP:%Y-%m-%dT%H:%M:%SZ}"


def record(scene: Scene, table: Table) -> Examples:
    """An example of every operation; what nobody of the scene gets is made by hand."""
    now = timezone.now()
    found: Examples = {}
    for cell in sorted(_cells(table), key=lambda each: ROLES.index(each.role)):
        operation = _operation(cell)
        if operation:
            _Asked(scene, table, cell, now).into(found.setdefault(operation["operationId"], {}), operation)
    for name, each in BY_HAND.items():
        _add(found, name, each)
    return {name: shown for name, shown in found.items() if shown}


def _add(found: Examples, name: str, made: ByHand) -> None:
    """What was made by hand; of what was answered only the body that was sent gives way."""
    known = found.setdefault(name, {})
    if made.takes is not None:
        known["takes"] = made.takes
    for answer, shown in made.answers.items():
        status, _, media = answer.partition(" ")
        bodies = known.setdefault("answers", {}).setdefault(status, {})
        if (media := media or made.media or JSON) in bodies and not made.outdoes:
            raise LookupError(f"{name} is answered {status} in the scene: nothing of it by hand")
        bodies[media] = _body(found, shown)


def _body(found: Examples, shown: Any) -> Any:
    if isinstance(shown, Rehearsed):
        return shown.around(_body(found, shown.result))
    if not isinstance(shown, Like):
        return shown
    answers = found[shown.operation]["answers"]
    return {**answers[max(answers)][JSON], **shown.changes}


def _cells(table: Table) -> Iterator[Cell]:
    """The requests that should succeed, those without a query first."""
    for row in sorted((row for row in table.rows if row.startswith(routes.API)), key=len):
        for cell in table.cells(row):
            status = str(table.answers[cell.expected])
            if cell.role in ROLES and cell.kind in ("own", "none") and not cell.accept and status[0] == "2":
                yield cell


def _operation(cell: Cell) -> Any:
    path = described.document()["paths"].get(described.path_of(address(cell.row)), {})
    return path.get(cell.method.lower())


@dataclass(frozen=True)
class _Asked:
    """One request of the matrix, and what it leaves in the examples."""

    scene: Scene
    table: Table
    cell: Cell
    now: datetime

    def into(self, found: Examples, operation: Any) -> None:
        """Add what the operation has no example of yet."""
        steady = Steady(self.now)
        place = asking.place_of(self.scene, self.table, self.cell)
        if "requestBody" in operation and "takes" not in found:
            found["takes"] = steady.of(filled_body(self.cell.body, place))
        for status, media, query in _missing(found, operation):
            shown = self._shown(status, media, query, place, steady)
            if shown is not None:
                found.setdefault("answers", {}).setdefault(status, {})[media] = shown

    def _shown(self, status: str, media: str, query: str, place: dict[str, str], steady: Steady) -> Any:
        row = self.cell.row
        asked = replace(self.cell, row=f"{row}{'&' if '?' in row else '?'}{query}" if query else row)
        if media != JSON:
            asked = replace(asked, accept=media)
        answer = asking.ask(self.scene, self.table, asked, place=place)
        text = asking.body_of(answer).decode()
        if str(answer.status_code) != status or not text:
            return None
        return steady.of(json.loads(text)) if media == JSON else steady.text(text)


def _missing(found: Examples, operation: Any) -> Iterator[tuple[str, str, str]]:
    """Status, media type and query of each success that has no example; dry runs are asked for."""
    names = {each["name"] for each in operation["parameters"]}
    for status, media, said in successes(operation):
        is_rehearsed = status == "200" and "dry_run" in names and "anyOf" not in said["schema"]
        if media not in found.get("answers", {}).get(status, {}):
            yield status, media, "dry_run=true" if is_rehearsed else ""


def successes(operation: Any) -> Iterator[tuple[str, str, Any]]:
    """Status, media type and description of each body that an operation may succeed with."""
    for status, answer in operation["responses"].items():
        if status[0] == "2":
            for media, said in answer.get("content", {}).items():
                yield status, media, said


def write(examples: Examples) -> None:
    """The file that the document reads."""
    text = json.dumps(examples, indent=1, sort_keys=True, ensure_ascii=False)
    SOURCE.write_text(NAME.sub(lambda found: NAMES[found[0]], text) + "\n")
