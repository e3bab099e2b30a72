"""An API server in this process that has the namespace of the members' accounts."""

import pytest

from tests.tenants.in_process import InProcess


@pytest.fixture
def access() -> InProcess:
    made = InProcess()
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "allotment-access"}}
    made.client.create("namespaces", body)
    return made
