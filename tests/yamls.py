"""The YAML of this repository's own files, read by libyaml: in Python it takes ten times as long."""

from typing import Any

import yaml


def document(text: str) -> Any:
    """The one document of a text."""
    return yaml.load(text, yaml.CSafeLoader)


def documents(text: str) -> list[Any]:
    """All documents of a text; between two lines of dashes there may be nothing."""
    return [body for body in yaml.load_all(text, yaml.CSafeLoader) if body]
