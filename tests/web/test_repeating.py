"""What a client sends back as it was shown is no change, however it writes a time."""

import pytest

from portal.api.base.serializers import repeats

pytestmark = pytest.mark.both_databases

SHOWN = "2026-10-01T08:30:00.250000Z"


@pytest.mark.parametrize(
    ("sent", "shown", "is_repeated"),
    [
        (SHOWN, SHOWN, True),
        ("2026-10-01T08:30:00.250000+00:00", SHOWN, True),
        ("2026-10-01T10:30:00.25+02:00", SHOWN, True),
        ("2026-10-01T08:30:00.251000+00:00", SHOWN, False),
        ("2026-10-01T08:30:00.250000", SHOWN, False),
        ("2026-13-45T08:30:00Z", SHOWN, False),
        ("vision", "speech", False),
        ("vision", "vision", True),
        (None, SHOWN, False),
        ({"a": [1]}, {"a": [1]}, True),
        (1, "1", False),
    ],
)
def test_a_time_is_the_same_in_any_writing(sent: object, shown: object, *, is_repeated: bool) -> None:
    assert repeats(sent, shown) is is_repeated
