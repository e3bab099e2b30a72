"""What is rendered for Flux before Flux's own schemas, on a real API server; no controller of Flux runs."""

import json
from collections.abc import Iterator

import pytest

from tests.controlplane.plane import ControlPlane, PlaneError
from tests.golden import golden
from tests.tenants.plane import flux_schemas

pytestmark = [pytest.mark.exhaustive, pytest.mark.plane]
NAMESPACE = "lab-dddddddddd"


@pytest.fixture(scope="module")
def schemas(control_plane: ControlPlane) -> Iterator[None]:
    """The definitions of Flux, and the namespace of the golden tenant; both are taken away again."""
    with flux_schemas(control_plane):
        control_plane.kubectl("create", "namespace", NAMESPACE)
        yield
        control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_a_virtual_cluster_is_taken_by_fluxs_own_schemas_with_the_products_rights(
    control_plane: ControlPlane, schemas: None
) -> None:
    for manifest in golden("tenants/vcluster"):
        assert manifest["metadata"]["name"] in dry_run(control_plane, manifest)


def test_the_schemas_would_refuse_a_release_without_its_interval(
    control_plane: ControlPlane, schemas: None
) -> None:
    (release,) = [m for m in golden("tenants/vcluster") if m["kind"] == "HelmRelease"]
    del release["spec"]["interval"]

    with pytest.raises(PlaneError, match="interval"):
        dry_run(control_plane, release)


def dry_run(plane: ControlPlane, manifest: dict[str, object]) -> str:
    apply = ("apply", "--server-side", "--validate=strict", "--field-manager=allotment", "--dry-run=server")
    return plane.kubectl(*apply, "-f", "-", input=json.dumps(manifest), as_admin=False)
