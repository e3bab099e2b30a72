"""A notebook from an image of the catalogue, private and by digest, on the simulated cluster."""

from typing import Any

import pytest

from apps.cluster.models import Cluster
from apps.tenants.people.services import registries
from apps.tenants.specs import REGISTRIES, RegistryLogin
from apps.workloads.images.services import keeping
from apps.workloads.images.services.keeping import ImageWish
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import ImageLimits, ImagesAllowed, Phase, WorkloadRequest
from tests.drills.world import World

pytestmark = pytest.mark.django_db
LAB = f"registry.example/vision/lab@sha256:{'b' * 64}"


def submit(world: World, image: str) -> Workload:
    body = {"kind": "notebook", "offer": "h100-1g-10gb", "cpu": "500m", "memory": "1Gi", "image": image}
    request = WorkloadRequest(spec=parsing.parse(body), slug="lab")
    return verbs.submit_workload(actor=world.rosa, tenant=world.tenant, request=request, now=world.now)


def pod_of(world: World) -> Any:
    (pod,) = [body for body in world.door.list("Pod")[0] if "lab" in body["metadata"]["name"]]
    return pod["spec"]


def test_its_life_with_a_login_that_comes_while_it_is_stopped(world: World) -> None:
    checked = {"name": "image-credentials", "available": True, "version": None, "message": "", "missing": []}
    Cluster.objects.filter(pk=world.cluster.pk).update(capabilities=[checked])
    wish = ImageWish(name="Lab", reference=LAB, tenants=(world.tenant,))
    keeping.add_image(actor=world.petra, wish=wish, now=world.now)
    alone = ImageLimits(ImagesAllowed.CATALOGUE)
    keeping.set_limits(actor=world.petra, tenant=None, limits=alone, now=world.now)

    row = submit(world, LAB)
    world.settle()
    assert world.phase(row) is Phase.RUNNING
    spec = pod_of(world)
    assert [(c["image"], c["imagePullPolicy"]) for c in spec["containers"]] == [(LAB, "IfNotPresent")]
    assert "imagePullSecrets" not in spec

    login = RegistryLogin("registry.example", "puller", "word")
    registries.set_registry(actor=world.petra, tenant=world.tenant, login=login, now=world.now)
    world.settle()
    assert "imagePullSecrets" not in pod_of(world), "what runs is left alone"
    secrets = {body["metadata"]["name"]: body["type"] for body in world.door.list("Secret")[0]}
    assert secrets[REGISTRIES] == "kubernetes.io/dockerconfigjson"

    world.act("stop", row)
    world.settle()
    row.refresh_from_db()
    world.act("resume", row)
    world.settle()
    assert world.phase(row) is Phase.RUNNING
    assert pod_of(world)["imagePullSecrets"] == [{"name": REGISTRIES}]
