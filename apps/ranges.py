"""What every whole number that comes from outside may be, and how long every list: one table. Pure.

A number is kept as it was sent, so each must fit the database (32 bits), a Kubernetes quantity (64 bits) once
it is summed and multiplied, and the calendar once it is added to a time. tests/hostile/test_ranges.py holds
every field of every surface to a row of this table.
"""

from typing import NamedTuple, TypedDict

HOUR, DAY = 3600, 86_400


class Bounds(TypedDict):
    """As fields of forms and serializers take them."""

    min_value: int
    max_value: int


class Range(NamedTuple):
    """From the least to the most, both allowed."""

    least: int
    most: int

    @property
    def bounds(self) -> Bounds:
        """What a field is made with: `IntegerField(**DEVICES.bounds)`."""
        return {"min_value": self.least, "max_value": self.most}

    def holds(self, number: int) -> bool:
        """Whether the number may be kept."""
        return self.least <= number <= self.most

    def within(self, number: int) -> int:
        """The number, or the end of the range that it is beyond: for what was stored before there was one."""
        return min(max(number, self.least), self.most)

    def within_or_none(self, number: int | None) -> int | None:
        """As `within`; None stays None."""
        return None if number is None else self.within(number)


DEVICES = Range(0, 1_000_000)
"""Devices of one offer: a guarantee, what may be borrowed, what must be lent."""
MORE_DEVICES = Range(1, DEVICES.most)
"""Devices asked for, granted or moved: at least one."""
DEVICES_PER_POD = Range(0, 1024)
"""0: none, on an offer of cores."""
COMPLETIONS = Range(1, 10_000)
ITEMS = Range(1, 1000)
"""Of one array; they are numbered from 0."""
FAILED_ITEMS = Range(0, ITEMS.most)
"""Of one array, before it is given up."""
RETRIES = Range(0, 100)
NODES = Range(1, 256)
"""Of one training: a pod on each."""
PROCESSES = Range(1, 1024)
"""Of one training, on each node."""
AT_ONCE = Range(1, 1000)
"""How many of a thing somebody asks advice for."""
REPLICAS = Range(1, 64)
"""Of one service: a pod each."""
SERVED_PORT = Range(1024, 65_535)
"""Of a service: a program that is not root opens no lower one."""
START_SECONDS = Range(10, 2 * HOUR)
"""Until a replica of a service answers for the first time."""
WAIT_SECONDS = Range(0, 30 * DAY)
RUN_SECONDS = Range(60, 366 * DAY)
EXTENSION_SECONDS = Range(1, 366 * DAY)
IDLE_FOR_SECONDS = Range(600, 7 * DAY)
OWN_IDLE_SECONDS = Range(120, IDLE_FOR_SECONDS.most)
"""Of one workload's own idle policy: who knows the work may want less than a team should."""
COUNTDOWN_SECONDS = Range(300, DAY)
OWN_EXTENSIONS = Range(0, 20)
NOTICE_SECONDS = Range(0, 7 * DAY)
GRANT_SECONDS = Range(HOUR, 366 * DAY)
GRANT_HOURS = Range(1, GRANT_SECONDS.most // HOUR)
CHARGED_SECONDS = Range(1, DAY)
"""The least that a price charges."""
KUBECONFIG_SECONDS = Range(600, DAY)
TOKEN_DAYS = Range(1, 366)
KEEP_OLD_SECONDS = Range(0, 7 * DAY)
"""For which the text of a token still opens after it was rotated."""
MOST_SERVICE_TOKENS = 50
"""Of one service."""
GENERATION = Range(0, 2**31 - 1)
PORT = Range(1, 65_535)
PARAMETER_CHARACTERS = Range(1, 4096)
TEMPLATE_VERSION = Range(1, 100_000)
SYNCED_OBJECTS = Range(1, 10_000)
"""A virtual cluster's pods and services."""

MOST_MONEY = 10**9
"""Of an hour's price or a month's budget: a year of it on every device still has 20 digits."""
MOST_LABELS = 64
MOST_NAMED = 100
"""Offers, clusters, people or tenants that one request names."""
