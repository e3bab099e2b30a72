"""What people of the story do over REST."""

import uuid
from typing import Any

import httpx

from tests.patience import until

SLICE = "h100-1g-10gb"


def ask(client: httpx.Client, slug: str, spec: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(
        "/workloads",
        json={"tenant": "vision", "slug": slug, "spec": spec},
        headers={"Idempotency-Key": str(uuid.uuid4())},
    )
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"].endswith(answer.json()["id"])
    return dict(answer.json())


def job(seconds: int) -> dict[str, Any]:
    return {
        "kind": "job",
        "offer": SLICE,
        "image": "python:3.13",
        "command": ["sleep", str(seconds)],
        "job": {},
    }


def reach(client: httpx.Client, workload: dict[str, Any], phase: str, seconds: float = 60) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        now = client.get(f"/workloads/{workload['id']}").json()
        return now if now["status"]["phase"] == phase else None

    return dict(until(there, f"{workload['slug']} to be {phase}", seconds))


def act(client: httpx.Client, workload: dict[str, Any], verb: str, **body: Any) -> dict[str, Any]:
    answer = client.post(f"/workloads/{workload['id']}/{verb}", json=body)
    assert answer.status_code in (200, 202), answer.text
    return dict(answer.json())
