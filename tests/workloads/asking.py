"""What people ask of the services."""

from typing import Any

import pytest

from apps.accounts.models import User
from apps.errors import Invalid
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import WorkloadChange, WorkloadRequest
from portal.api.base.writing import merged
from tests.conftest import Cast, as_actor
from tests.factories import NOW, notebook_body


def asked(slug: str = "nb-ada", labels: dict[str, str] | None = None, **spec: Any) -> WorkloadRequest:
    return WorkloadRequest(spec=parsing.parse(notebook_body(**spec)), slug=slug, labels=labels or {})


def problems_of(document: object) -> dict[str, str]:
    """Pointer -> code of all that is wrong with a spec."""
    with pytest.raises(Invalid) as refused:
        parsing.parse(document)
    return {problem.pointer: problem.code for problem in refused.value.problems}


def submit(cast: Cast, user: User | None = None, **given: Any) -> Workload:
    return verbs.submit_workload(
        actor=as_actor(user or cast.rosa), tenant=cast.vision, request=asked(**given), now=NOW
    )


def change(cast: Cast, row: Workload, **spec: Any) -> Workload:
    current = parsing.as_json(reading.spec_of(row))
    wanted = parsing.parse(merged(current, spec))
    return verbs.update_workload(
        actor=as_actor(cast.rosa), workload=row, change=WorkloadChange(spec=wanted), now=NOW
    )
