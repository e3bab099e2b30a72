"""Takes secrets out of texts that were written for something else: logs, reasons, the record. Pure."""

import re
from collections.abc import Collection

from apps.accounts.tokens import MARK

HIDDEN = "[secret]"
SHORTEST = 8
"""Of a secret that is looked for by its value: shorter ones would be found in words."""
_FORMS = (
    (re.compile(rf"{MARK}[0-9A-Za-z]{{8,}}"), f"{MARK}{HIDDEN}"),
    (re.compile(r"(/invite/)[^/\s?\"']+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',]+"), rf"\1 {HIDDEN}"),
    (re.compile(r"(://)[^/\s@\"']+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"\beyJ[\w-]{10,}\.[\w-]+\.[\w-]+"), HIDDEN),
    (
        re.compile(r"(?i)([\"']?\b(?:password|passwd|secret|secret_key|token|sessionid)[\"']?\s*[=:]\s*)"
                   r"(?:\"[^\"]*\"|'[^']*'|[^\s,;&)}]+)"),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
     HIDDEN),
)  # fmt: skip
"""API tokens, one-time links, headers, addresses with a credential, clusters' tokens, named values, keys."""


class Scrub:
    """Takes secrets out of a text."""

    def __init__(self, known: Collection[str]) -> None:
        longest = sorted({each for each in known if len(each) >= SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest))) if longest else None

    def __call__(self, text: str) -> str:
        """The text without them."""
        found = self._known.sub(HIDDEN, text) if self._known else text
        for form, instead in _FORMS:
            found = form.sub(instead, found)
        return found
