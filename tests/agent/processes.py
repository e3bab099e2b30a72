"""The agent as a process of its own."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.patience import patient

ROOT = Path(__file__).resolve().parents[2]


GPUS, SECONDS = 8, 10.0


@contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The agent over the stand-in on a free port, and its address."""
    command = [
        sys.executable,
        "-m",
        "tests.agent.live",
        str(GPUS),
        "--bind",
        "127.0.0.1",
        "--port",
        "0",
        *options,
    ]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            heard = re.search(r"listening on \('127\.0\.0\.1', (\d+)\)", line)
            if heard:
                break
        else:
            pytest.fail("the agent ended before it listened")
        try:
            yield process, f"http://127.0.0.1:{heard.group(1)}"
        finally:
            process.kill()


def scrape(address: str) -> str:
    return httpx.get(f"{address}/metrics", timeout=patient(5)).raise_for_status().text


def wait_for(address: str, word: str) -> str:
    for _ in range(int(patient(100))):
        try:
            text = scrape(address)
        except httpx.HTTPStatusError:
            text = ""
        if word in text:
            return text
        time.sleep(0.1)
    pytest.fail(f"{word} did not come")
