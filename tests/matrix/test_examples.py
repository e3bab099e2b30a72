"""Every operation has an example of what is really sent and answered, and it is as the document says."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from apps.web.examples import SOURCE
from portal.api.declared.description import PAGE
from tests import described
from tests.matrix import examples
from tests.matrix.examples_by_hand import BY_HAND, ENDLESS
from tests.matrix.scene import Scene
from tests.matrix.table import load

KNOWN: dict[str, Any] = json.loads(SOURCE.read_text())
USABLE = re.compile(
    r"\balt_\w|-----BEGIN|\beyJ[\w-]{8}|[0-9a-f]{32}(?<!0{32})|/invite/(?!shown-once)|client-key-data"
)
"""What a token, a key, a digest or a kubeconfig looks like."""


def operations() -> Iterator[Any]:
    for item in described.document()["paths"].values():
        yield from item.values()


@pytest.mark.skipif("RECORD_EXAMPLES" not in os.environ, reason="writes apps/web/examples.json")
@pytest.mark.django_db
def test_record(scene: Scene) -> None:
    examples.write(examples.record(scene, load()))


def test_every_success_has_an_example() -> None:
    missing = [
        f"{each['operationId']} {status} {media}"
        for each in operations()
        for status, media, said in examples.successes(each)
        if media not in ENDLESS and "example" not in said
    ]
    assert missing == []


def test_every_body_that_is_taken_has_an_example() -> None:
    missing = [
        each["operationId"]
        for each in operations()
        if any("example" not in said for said in each.get("requestBody", {}).get("content", {}).values())
    ]
    assert missing == []


def test_every_example_is_as_its_schema_says() -> None:
    wrong = []
    for each in operations():
        shown = [
            ("takes", media, said) for media, said in each.get("requestBody", {}).get("content", {}).items()
        ]
        for where, media, said in (*shown, *examples.successes(each)):
            if media.endswith("json") and "example" in said:
                errors = described.validator_of(said["schema"]).iter_errors(said["example"])
                wrong += [f"{each['operationId']} {where} {e.json_path}: {e.message[:200]}" for e in errors]
    assert wrong == []


def test_no_example_is_left_over() -> None:
    shown = {
        (each["operationId"], where)
        for each in operations()
        for where in (
            *(["takes"] if "requestBody" in each else []),
            *(s for s, *_ in examples.successes(each)),
        )
    }
    kept = {
        (name, where)
        for name, each in KNOWN.items()
        for where in (*each.get("answers", ()), *each.keys() & {"takes"})
    }
    assert kept <= shown
    assert set(BY_HAND) <= set(KNOWN)
    assert [name for name, each in BY_HAND.items() if not each.reason] == []


def test_no_example_holds_what_could_be_used() -> None:
    assert USABLE.findall(SOURCE.read_text()) == []


def test_the_page_shows_the_examples() -> None:
    page = PAGE.forms[0].body.decode()
    assert page.count('class="example"') >= len(KNOWN)
