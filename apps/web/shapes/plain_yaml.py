"""Reads YAML that people send: plain values, no references, no more of it than its purpose needs. Pure."""

from typing import Any

import yaml

_MARKS = "[]{},:-?&*!|>#\n"
"""Characters that mean something to YAML."""


class NotYaml(ValueError):
    """The text is no YAML of the kind that was asked for; the message says why."""


class _Loader(yaml.SafeLoader):
    """Plain YAML without references, which could expand without end."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse what only refers to something else."""
        if self.check_event(yaml.AliasEvent):
            raise NotYaml("It refers to itself with *; write it out.")
        found: yaml.Node | None = super().compose_node(parent, index)
        return found


def read(text: str, *, what: str, most_marks: int) -> Any:
    """The document in a text; raises NotYaml. Rule: at most as many marks as `what` may need, because the
    parser's time grows with the square of its depth.
    """
    if sum(map(text.count, _MARKS)) > most_marks or text.count("[") + text.count("{") > most_marks // 40:
        raise NotYaml(f"It is far larger than {what} needs to be.")
    try:
        return yaml.load(text, _Loader)  # noqa: S506 a SafeLoader
    except NotYaml:
        raise
    # Beside its own errors the parser lets through whatever making a date, a number or a key fails with.
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        raise NotYaml("It is not YAML.") from error
    except RecursionError as error:
        raise NotYaml("It is nested too deeply.") from error
