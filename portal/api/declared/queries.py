"""Query parameters, each declared once: its name, how it is read, and how OpenAPI describes it.

`ApiView` reads every declared parameter before its view runs, so a wrong value is refused before anything
happens, and the OpenAPI document says exactly what the reader accepts.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from rest_framework.request import Request

from apps.ranges import MOST_NAMED
from apps.web.problems.refusals import BadParameter
from apps.web.requests.periods import moment_asked

Value = TypeVar("Value")
Absent = TypeVar("Absent", bound=int | None)
Choice = TypeVar("Choice", bound=str)
LONGEST = 253
"""Characters of a text, or of each one of several: what a name in Kubernetes may have."""


@dataclass(frozen=True)
class Parameter(ABC, Generic[Value]):
    """A name, what it is for, and how its text is read; `several` marks a list with commas."""

    name: str
    help: str
    several = False

    def of(self, request: Request) -> Value:
        """Its value in this request; raises BadParameter."""
        return self.read(request.query_params.get(self.name))

    def parted(self, text: str) -> list[str]:
        """The values between commas. RULE: a request names a bounded number of things; each may be a look-up
        of its own.
        """
        parts = text.split(",", MOST_NAMED)
        if len(parts) > MOST_NAMED or max(map(len, parts)) > LONGEST:
            words = f"{self.name} is at most {MOST_NAMED} values of at most {LONGEST} characters."
            raise BadParameter(self.name, words)
        return parts

    @abstractmethod
    def read(self, text: str | None) -> Value:
        """The value of a text; None where the parameter is absent."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the value."""

    def described(self) -> dict[str, Any]:
        """The parameter as OpenAPI has it."""
        style = {"style": "form", "explode": False} if self.several else {}
        return {
            "in": "query", "name": self.name, "description": self.help, "schema": self.schema(), **style,
        }  # fmt: skip


@dataclass(frozen=True)
class Flag(Parameter[bool]):
    """True or false; absent is false."""

    def read(self, text: str | None) -> bool:
        """Only these two words."""
        if text not in (None, "true", "false"):
            raise BadParameter(self.name, f"{self.name} is true or false.")
        return text == "true"

    def schema(self) -> dict[str, Any]:
        """A boolean."""
        return {"type": "boolean", "default": False}


@dataclass(frozen=True)
class WholeNumber(Parameter[Absent | int], Generic[Absent]):
    """A whole number within bounds, a multiple of `step`; absent is `default`, which may be None."""

    _: KW_ONLY
    default: Absent
    lowest: int
    highest: int
    step: int = 1

    def read(self, text: str | None) -> Absent | int:
        """Digits alone: no sign, no other script."""
        if text is None:
            return self.default
        if not (text.isascii() and text.isdigit() and len(text) < 10 and self._holds(int(text))):
            raise BadParameter(
                self.name, f"{self.name} is a whole number from {self.lowest} to {self.highest}."
            )
        if int(text) % self.step:
            raise BadParameter(self.name, f"{self.name} is a multiple of {self.step}.")
        return int(text)

    def _holds(self, number: int) -> bool:
        return self.lowest <= number <= self.highest

    def schema(self) -> dict[str, Any]:
        """An integer."""
        found: dict[str, Any] = {"type": "integer", "minimum": self.lowest, "maximum": self.highest}
        found |= {"multipleOf": self.step} if self.step > 1 else {}
        return found if self.default is None else {**found, "default": self.default}


@dataclass(frozen=True)
class Words(Parameter[list[str] | None]):
    """Known words, several with commas; None where it is absent."""

    known: Iterable[str]
    several = True

    def read(self, text: str | None) -> list[str] | None:
        """Each must be known."""
        asked = None if text is None else self.parted(text)
        if asked is not None and not set(asked) <= set(self.known):
            raise BadParameter(self.name, f"{self.name} is one of {', '.join(self.known)}.")
        return asked

    def schema(self) -> dict[str, Any]:
        """A list of an enum."""
        return _several({"type": "string", "enum": [str(word) for word in self.known]})


@dataclass(frozen=True)
class OneOf(Parameter[Choice]):
    """One of these words, such as the members of an enum; absent is `default`."""

    known: Iterable[Choice]
    default: Choice

    def read(self, text: str | None) -> Choice:
        """The enum's member."""
        words = {str(word): word for word in self.known}
        if text is None:
            return self.default
        if text not in words:
            raise BadParameter(self.name, f"{self.name} is one of {', '.join(words)}.")
        return words[text]

    def schema(self) -> dict[str, Any]:
        """An enum."""
        words = [str(word) for word in self.known]
        return {"type": "string", "enum": words, "default": str(self.default)}


@dataclass(frozen=True)
class Moment(Parameter[datetime | None]):
    """A time with its zone, in UTC; None where it is absent."""

    def read(self, text: str | None) -> datetime | None:
        """From 1970 on."""
        return None if text is None else moment_asked(self.name, text)

    def schema(self) -> dict[str, Any]:
        """RFC 3339."""
        return {"type": "string", "format": "date-time"}


@dataclass(frozen=True)
class Text(Parameter[str | None]):
    """A text as it is, in the form of `pattern` where there is one; None where it is absent."""

    pattern: str = ""
    form: str = ""
    _: KW_ONLY
    longest: int = LONGEST

    def read(self, text: str | None) -> str | None:
        """`form` says in words what the pattern wants."""
        if text is not None and len(text) > self.longest:
            raise BadParameter(self.name, f"{self.name} has at most {self.longest} characters.")
        if text is not None and not re.fullmatch(self.pattern or r"(?s:.*)", text):
            raise BadParameter(self.name, f"{self.name} is {self.form}.")
        return text

    def schema(self) -> dict[str, Any]:
        """A string."""
        if self.pattern:
            return {"type": "string", "pattern": f"^{self.pattern}$"}
        return {"type": "string", "maxLength": self.longest}


@dataclass(frozen=True)
class Texts(Parameter[list[str] | None]):
    """Names, several with commas; None where it is absent."""

    several = True

    def read(self, text: str | None) -> list[str] | None:
        """Unknown names find nothing."""
        return None if text is None else self.parted(text)

    def schema(self) -> dict[str, Any]:
        """A list of strings."""
        return _several({"type": "string", "pattern": "^[^,]*$", "maxLength": LONGEST})


@dataclass(frozen=True)
class Ids(Parameter[list[UUID] | None]):
    """Ids, several with commas; None where it is absent."""

    several = True

    def read(self, text: str | None) -> list[UUID] | None:
        """Each a UUID."""
        try:
            return None if text is None else [UUID(part) for part in self.parted(text)]
        except ValueError:
            raise BadParameter(self.name, f"{self.name} is an id, or several with commas.") from None

    def schema(self) -> dict[str, Any]:
        """A list of UUIDs."""
        return _several({"type": "string", "format": "uuid"})


@dataclass(frozen=True)
class Sort(Parameter[str]):
    """The order of a list: one of these fields, with - in front for the reverse; the first is the usual."""

    orders: Sequence[str] = ()

    def read(self, text: str | None) -> str:
        """Field names of the rows."""
        asked = self.orders[0] if text is None else text
        if asked not in self._known():
            fields = ", ".join(each.removeprefix("-") for each in self.orders)
            raise BadParameter(self.name, f"{self.name} is one of {fields}, with - in front for the reverse.")
        return asked

    def _known(self) -> list[str]:
        fields = [each.removeprefix("-") for each in self.orders]
        return [f"{sign}{field}" for field in fields for sign in ("", "-")]

    def schema(self) -> dict[str, Any]:
        """An enum."""
        return {"type": "string", "enum": self._known(), "default": self.orders[0]}


def _several(items: dict[str, Any]) -> dict[str, Any]:
    """A list of such values, between commas."""
    return {"type": "array", "items": items, "maxItems": MOST_NAMED}
