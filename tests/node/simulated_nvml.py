"""The node agent of an image over the stand-in for the driver: the cards of a test's node.

Mounted beside the image's own `agent`, with what it needs of `tests.agent`; started as the DaemonSet would
start the image's entry point.
"""

import os
import sys

from agent.__main__ import main
from tests.agent.cards import SM, Card, Part
from tests.agent.live import RealTime
from tests.agent.standin import installed

PLACES = {"1g.10gb": (19, 10_240), "3g.40gb": (9, 40_960)}
"""Of the profiles that the node's driver publishes: NVIDIA's profile id, and MiB."""


def card() -> Card:
    """One H100, cut as NODE_CARD says: `uuid profile start`, comma between two."""
    parts = []
    for number, words in enumerate(os.environ["NODE_CARD"].split(",")):
        uuid, profile, start = words.split()
        identity, mib = PLACES[profile]
        parts.append(
            Part(
                uuid,
                profile,
                number + 1,
                profile_id=identity,
                start=int(start),
                total_mib=mib,
                rates={SM: 40.0},
            )
        )
    return Card("GPU-00000000-0000-0000-0000-000000000000", 0, name="NVIDIA H100 80GB HBM3", parts=parts)


if __name__ == "__main__":
    with installed(RealTime([card()])):
        sys.exit(main(sys.argv[1:]))
