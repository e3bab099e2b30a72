"""The logs that were kept of a workload's last run. Reads only."""

from collections.abc import AsyncGenerator, Sequence
from zlib import decompress

from asgiref.sync import sync_to_async

from apps.workloads.lifecycle.rules.log_end import last_lines
from apps.workloads.log_models import KeptLog, LogPiece
from apps.workloads.models import Workload


def logs_of(row: Workload) -> list[KeptLog]:
    """One for each container, the usual one first; without their lines."""
    return list(KeptLog.objects.filter(workload=row).order_by("place", "pk"))


def log_of(row: Workload, pod: str = "", container: str = "") -> KeptLog | None:
    """That of a pod and a container; of none that is named the usual one."""
    logs = KeptLog.objects.filter(workload=row).order_by("place", "pk")
    named = {"pod": pod, "container": container}
    return logs.filter(**{name: value for name, value in named.items() if value}).first()


def end_of(log: KeptLog, lines: int) -> str:
    """Its last lines."""
    pieces = LogPiece.objects.filter(log=log).order_by("-number")
    return last_lines((bytes(data) for data in pieces.values_list("data", flat=True).iterator(1)), lines)


async def whole(log: KeptLog) -> AsyncGenerator[bytes, None]:
    """All of it, piece by piece."""
    numbers = LogPiece.objects.filter(log=log).order_by("number").values_list("number", flat=True)
    async for number in numbers:
        piece = await LogPiece.objects.filter(log=log, number=number).afirst()
        if piece is not None:
            yield decompress(piece.data)


async def batches(log: KeptLog, lines: int) -> AsyncGenerator[Sequence[str], None]:
    """Its last lines as `live.follow` gives them."""
    yield (await sync_to_async(end_of)(log, lines)).splitlines()
