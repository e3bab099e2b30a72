"""What tests on a real node ask for and look at."""

from __future__ import annotations

import json
from typing import Any

from apps.sealing import IDE, derived
from apps.workloads.models import Workload
from tests.node.images import recipes
from tests.node.jupyter import Jupyter
from tests.workloads.on_plane import House

NOTEBOOK, PYTHON = recipes.reference(recipes.NOTEBOOK), recipes.reference(recipes.PYTHON)
PRIVATE = recipes.reference(recipes.PRIVATE)


def pod_of(house: House, row: Workload) -> dict[str, Any]:
    """Its one pod, as the API server has it."""
    found = house.plane.kubectl("get", "pods", "-A", "-l", f"allotment.dev/uid={row.pk}", "-o", "json")
    (pod,) = json.loads(found)["items"]
    return dict(pod)


def jupyter_of(house: House, row: Workload) -> Jupyter:
    """A notebook's server, by its pod's IP."""
    return Jupyter(f"{pod_of(house, row)['status']['podIP']}:8888", derived(IDE, str(row.pk)))


def notebook(house: House, slug: str, **spec: Any) -> Workload:
    """A notebook with JupyterLab."""
    return house.submit(slug, **{"image": NOTEBOOK, **spec})


def program(house: House, slug: str, code: str, **spec: Any) -> Workload:
    """A job that runs this Python."""
    return house.job(slug, **{"image": PYTHON, "command": ["python3", "-u", "-c", code], **spec})


def ready_of(row: Workload) -> dict[str, str]:
    """What the product says of its readiness; empty words before it has said anything."""
    found = [fact for fact in row.conditions if fact["type"] == "Ready"]
    return dict(found[0]) if found else {"message": ""}
