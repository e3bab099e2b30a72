"""Plain HTTP past the door: an nginx that asks the door, as a Gateway does, beside all through the door.

Requests go straight to the pod, through nginx, and through the door, in any order; then one download on each
way. What is said of the door includes its end of a port-forward, and of its CPU no other process: in its own
cluster it reaches Services straight.
"""

import os
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.door import gateway
from tests.door.house import House
from tests.door.pod import Pod
from tests.ports import free_port

ASKED, BODY_MIB = 100, 256


def requests(rounds: int) -> Iterator[dict[str, object]]:
    """A line per round, then what each way takes; a line of its own where there is no nginx."""
    if not gateway.NGINX:
        yield {"suite": "door", "past": "nginx is missing"}
        return
    pod = Pod("bench")
    with (
        tempfile.TemporaryDirectory() as folder,
        gateway.behind(Path(folder), {"bench": pod}, free_port(), notebooks=1) as home,
    ):
        ports = {"straight": pod.port, "past": home.front, "through": home.door}
        ways = {way: _client(home, port) for way, port in ports.items()}
        times = defaultdict[str, list[float]](list)
        for number in range(rounds):
            asked = [_turn(ways) for _ in range(ASKED)]
            for way in ways:
                times[way] += [each[way] for each in asked]
            yield {"suite": "door", "requests": ASKED, "round": number} | {
                f"{way}_p50_ms": round(statistics.median(each[way] for each in asked), 3) for way in ways
            }
        line: dict[str, object] = {"suite": "door", "requests": rounds * ASKED, "download_mib": BODY_MIB}
        for way, client in ways.items():
            line[f"{way}_p50_ms"] = round(statistics.median(times[way]), 3)
            line[f"{way}_p95_ms"] = round(statistics.quantiles(times[way], n=20)[-1], 3)
            line[f"{way}_mb_s"], line[f"{way}_door_cpu_s"] = _downloaded(home, client)
        yield line


def _client(home: House, port: int) -> httpx.Client:
    ((workload, cookie),) = home.stage["notebooks"]
    headers = {"Host": f"{workload}.localhost:{home.front}", "Cookie": f"allotment_way={cookie}"}
    return httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=120, trust_env=False)


def _turn(ways: dict[str, httpx.Client]) -> dict[str, float]:
    """Milliseconds of one small request on each way."""
    took = {}
    for way in random.sample(list(ways), len(ways)):
        began = time.perf_counter()
        assert ways[way].get("/said").status_code == 200
        took[way] = 1000 * (time.perf_counter() - began)
    return took


def _downloaded(home: House, client: httpx.Client) -> tuple[int, float]:
    """MB/s of a large answer, and the seconds of CPU that the door takes meanwhile."""
    before, began = _cpu(home), time.perf_counter()
    with client.stream("GET", f"/down?mib={BODY_MIB}") as answer:
        assert sum(map(len, answer.iter_raw())) == BODY_MIB * 1024**2
    return round(BODY_MIB * 1.048576 / (time.perf_counter() - began)), round(_cpu(home) - before, 2)


def _cpu(home: House) -> float:
    fields = Path(f"/proc/{home.door_pid()}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
