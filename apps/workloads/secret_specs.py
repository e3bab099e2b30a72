"""Secrets of a workload, with and without their values."""

from dataclasses import dataclass, field

from apps.words import Word


class Into(Word):
    """Where a program finds a secret."""

    ENV = "env", "Environment variable"
    FILE = "file", "File"


@dataclass(frozen=True)
class SecretKey:
    """A secret without its value: the name of the variable or of the file."""

    name: str
    into: Into

    @property
    def path(self) -> str:
        """Where its file is in the container."""
        return f"{SECRETS_PATH}/{self.name}"


@dataclass(frozen=True)
class SecretWish:
    """A secret as it shall be. Its value is never shown, not even in a traceback."""

    name: str
    into: Into
    value: str = field(repr=False)

    @property
    def key(self) -> SecretKey:
        """All of it that may be told."""
        return SecretKey(self.name, self.into)


SECRETS_PATH = "/run/secrets/allotment"
"""The folder of secrets that are files."""
NOT_SHOWN = "(not shown)"
"""What stands in place of a value."""
