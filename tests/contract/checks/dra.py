"""Devices: classes, slices, claims made for pods, allocation, waiting and release.

Each check publishes a ResourceSlice under a driver of its own, so that no two checks want the same device.
"""

from __future__ import annotations

from typing import Any

from tests.contract.answers import Body, conditions, dig, pick
from tests.contract.api import Api
from tests.contract.manifests import job, pod

EXTENDED = "resource.kubernetes.io/extended-resource-claim"


class Devices:
    """A driver, a slice with some devices of two sizes, and a class over them."""

    def __init__(self, api: Api, count: int = 1, *, named: bool = True) -> None:
        self.api = api
        self.driver = f"{api.name('driver')}.example.com"
        self.device_class = api.name("class")
        self.resource = f"{self.driver}/gpu"
        nodes = api.list("nodes", ns="*").body["items"]
        self.node = next(n["metadata"]["name"] for n in nodes if not n["spec"].get("taints"))
        devices = [self.device(index) for index in range(count)]
        spec = {
            "driver": self.driver,
            "nodeName": self.node,
            "pool": {"name": self.driver, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        }
        assert (
            api.create("resourceslices", {"metadata": {"name": api.name("slice")}, "spec": spec}).status
            == 201
        )
        selectors = [{"cel": {"expression": f"device.driver == '{self.driver}'"}}]
        class_spec: Body = {
            "selectors": selectors,
            **({"extendedResourceName": self.resource} if named else {}),
        }
        self.created = api.create(
            "deviceclasses", {"metadata": {"name": self.device_class}, "spec": class_spec}
        )
        assert self.created.status == 201, self.created.body

    @staticmethod
    def device(index: int) -> Body:
        """Even devices are small, odd ones large."""
        size = "small" if index % 2 == 0 else "large"
        attributes = {"size": {"string": size}, "index": {"int": index}}
        return {
            "name": f"gpu-{index}",
            "attributes": attributes,
            "capacity": {"memory": {"value": f"{10 + index}Gi"}},
        }

    def template(self, name: str = "t", *, count: int = 1, expression: str = "", **more: Any) -> Body:
        """A claim template over the class."""
        exactly: Body = {"deviceClassName": self.device_class, "count": count}
        if expression:
            exactly["selectors"] = [{"cel": {"expression": expression}}]
        request = {"name": "gpu", "exactly": exactly}
        body = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request], **more}}}}
        answer = self.api.create("resourceclaimtemplates", body)
        assert answer.status == 201, answer.body
        return dict(answer.body)

    def claiming(self, name: str, template: str = "t") -> Body:
        """A pod that uses a claim made from a template."""
        body = pod(name, resourceClaims=[{"name": "g", "resourceClaimTemplateName": template}])
        body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "g"}]}
        return body

    def running(self, name: str) -> Body:
        """The pod once it runs."""
        return self.api.wait("pods", name, lambda body: body["status"]["phase"] == "Running")

    def waiting(self, name: str) -> str:
        """Why the pod is not placed: the part that speaks of devices."""
        told = self.api.wait("pods", name, lambda body: conditions(body).get("PodScheduled") == "False")
        return str(conditions(told, "message")["PodScheduled"]["message"])


def _extended(devices: Devices, name: str, count: int = 1) -> Body:
    return pod(name, resources={devices.resource: str(count)})


def check_an_extended_resource_is_served_by_a_device(api: Api) -> Any:
    devices = Devices(api)
    api.create("pods", _extended(devices, "a"))
    body = devices.running("a")
    status = body["status"]["extendedResourceClaimStatus"]
    name = status["resourceClaimName"]
    claim = api.read("resourceclaims", name)
    assert name.startswith("a-extended-resources-")
    owner = pick(claim.get("metadata.ownerReferences.0"), "apiVersion", "kind", "name", "controller")
    reserved = pick(claim.get("status.reservedFor.0"), "resource", "name")
    return {
        "mappings": status["requestMappings"],
        "node": body["spec"]["nodeName"] == devices.node,
        "annotations": claim.get("metadata.annotations"),
        "owner": owner,
        "reserved": reserved,
        "spec": claim.get("spec"),
        "results": claim.get("status.allocation.devices.results"),
        "finalizers": claim.get("metadata.finalizers"),
    }


def check_a_second_pod_waits_for_the_device(api: Api) -> Any:
    devices = Devices(api)
    api.create("pods", _extended(devices, "a"))
    devices.running("a")
    api.create("pods", _extended(devices, "b"))
    told = devices.waiting("b")
    api.delete("pods", "a")
    devices.running("b")
    return "cannot allocate all claims" in told or "Insufficient" in told


def check_a_device_is_free_when_its_pod_is_gone(api: Api) -> Any:
    devices = Devices(api)
    api.create("pods", _extended(devices, "a"))
    claim = devices.running("a")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    api.delete("pods", "a")
    return api.gone("resourceclaims", claim)


def check_a_finished_job_gives_its_device_back(api: Api) -> Any:
    devices = Devices(api)
    api.create("jobs", job("first", seconds=1, resources={devices.resource: "1"}))
    api.wait("jobs", "first", lambda body: body.get("status", {}).get("succeeded") == 1)
    api.create("pods", _extended(devices, "next"))
    return devices.running("next")["status"]["phase"]


def check_several_devices_are_given_to_one_pod(api: Api) -> Any:
    devices = Devices(api, 3)
    api.create("pods", _extended(devices, "a", 2))
    name = devices.running("a")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    results = api.read("resourceclaims", name).get("status.allocation.devices.results")
    api.create("pods", _extended(devices, "b", 2))
    devices.waiting("b")
    return [pick(result, "device", "request", "pool", "driver") for result in results]


def check_a_resource_that_no_class_names_is_not_there(api: Api) -> Any:
    devices = Devices(api, named=False)
    api.create("pods", _extended(devices, "a"))
    return "Insufficient" in devices.waiting("a")


def check_a_claim_is_made_from_its_template(api: Api) -> Any:
    devices = Devices(api, named=False)
    devices.template()
    api.create("pods", devices.claiming("a"))
    body = devices.running("a")
    status = body["status"]["resourceClaimStatuses"][0]
    claim = api.read("resourceclaims", status["resourceClaimName"])
    assert status["resourceClaimName"].startswith("a-g-")
    allocation = claim.get("status.allocation")
    selector = allocation.get("nodeSelector")
    assert selector["nodeSelectorTerms"][0]["matchFields"][0]["values"] == [devices.node]
    return {
        "status": status["name"],
        "annotations": claim.get("metadata.annotations"),
        "generateName": claim.get("metadata.generateName"),
        "owner": pick(
            claim.get("metadata.ownerReferences.0"), "kind", "name", "controller", "blockOwnerDeletion"
        ),
        "results": dig(allocation, "devices.results"),
        "reserved": pick(claim.get("status.reservedFor.0"), "resource", "name"),
        "spec": claim.get("spec"),
        "stamped": "allocationTimestamp" in allocation,
    }


def check_a_gated_pod_has_its_claim_but_no_device(api: Api) -> Any:
    devices = Devices(api, named=False)
    devices.template()
    body = devices.claiming("a")
    body["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
    api.create("pods", body)
    made = api.wait("pods", "a", lambda found: found["status"].get("resourceClaimStatuses"))
    name = made["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    return api.read("resourceclaims", name).pick("status.allocation", "status.reservedFor")


def check_a_selector_chooses_among_devices(api: Api) -> Any:
    devices = Devices(api, 4, named=False)
    devices.template("large", expression=f"device.attributes['{devices.driver}'].size == 'large'")
    capacity = f"device.capacity['{devices.driver}'].memory"
    devices.template("big", expression=f"{capacity}.compareTo(quantity('13Gi')) >= 0")
    seen = []
    for name, template in (("a", "big"), ("b", "large")):
        api.create("pods", devices.claiming(name, template))
        claim = devices.running(name)["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        seen.append(api.read("resourceclaims", claim).get("status.allocation.devices.results.0.device"))
    return seen


def check_an_attribute_that_a_device_lacks_stops_the_allocation(api: Api) -> Any:
    devices = Devices(api, named=False)
    devices.template(expression=f"device.attributes['{devices.driver}'].absent == 'x'")
    api.create("pods", devices.claiming("a"))
    # Before its claim is made the pod may be told to be unschedulable.
    body = api.wait("pods", "a", lambda found: _scheduling(found).get("reason") == "SchedulerError")
    return "no such key: absent" in _scheduling(body)["message"]


def _scheduling(body: Body) -> Body:
    return dict(conditions(body, "reason", "message").get("PodScheduled", {}))


def check_a_shared_claim_is_reserved_for_each_pod(api: Api) -> Any:
    devices = Devices(api, named=False)
    request = {"name": "gpu", "exactly": {"deviceClassName": devices.device_class}}
    made = api.create(
        "resourceclaims", {"metadata": {"name": "shared"}, "spec": {"devices": {"requests": [request]}}}
    )
    for name in ("a", "b"):
        body = pod(name, resourceClaims=[{"name": "g", "resourceClaimName": "shared"}])
        body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "g"}]}
        api.create("pods", body)
        devices.running(name)
    claim = api.read("resourceclaims", "shared")
    for name in ("a", "b"):
        api.delete("pods", name)
    freed = api.wait("resourceclaims", "shared", lambda body: not dig(body, "status.allocation"))
    reserved = sorted(entry["name"] for entry in claim.get("status.reservedFor"))
    return {"spec": made.get("spec"), "reserved": reserved, "freed": freed.get("status")}


def check_a_claim_and_its_template_stay_as_they_are(api: Api) -> Any:
    devices = Devices(api, named=False)
    devices.template()
    request = {"name": "gpu", "exactly": {"deviceClassName": devices.device_class}}
    api.create("resourceclaims", {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
    claim = api.patch("resourceclaims", "c", {"spec": {"devices": {"requests": []}}})
    template = api.patch("resourceclaimtemplates", "t", {"spec": {"spec": {"devices": {"requests": []}}}})
    return [[answer.status, answer.get("details.causes.0.field")] for answer in (claim, template)]


def check_a_class_that_makes_no_sense_is_refused(api: Api) -> Any:
    def make(word: str, spec: Body) -> Any:
        answer = api.create("deviceclasses", {"metadata": {"name": api.name(word)}, "spec": spec})
        return [answer.status, answer.get("reason"), answer.get("details.causes.0.field")]

    return {
        "cel": make("cel", {"selectors": [{"cel": {"expression": "device.driver =="}}]}),
        "type": make("type", {"selectors": [{"cel": {"expression": "device.driver"}}]}),
        "name": make("name", {"extendedResourceName": "no domain"}),
    }


def check_a_slice_that_makes_no_sense_is_refused(api: Api) -> Any:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    device = {"name": "gpu-0"}
    wrong: dict[str, Body] = {
        "nowhere": {"driver": "d.example.com", "pool": pool, "devices": [device]},
        "twice": {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": [device, device]},
        "name": {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": [{"name": "GPU 0"}]},
        "driver": {"driver": "No Driver", "pool": pool, "nodeName": "n", "devices": []},
    }
    seen = {}
    for what, spec in wrong.items():
        answer = api.create("resourceslices", {"metadata": {"name": api.name(what)}, "spec": spec})
        seen[what] = [answer.status, answer.get("reason"), answer.get("details.causes.0.field")]
    return seen


def check_the_fleet_publishes_what_the_driver_publishes(api: Api) -> Any:
    slices = [item["spec"] for item in api.list("resourceslices", ns="*").body["items"]]
    devices = [device for spec in slices if spec["driver"] == "gpu.nvidia.com" for device in spec["devices"]]
    whole = next(device for device in devices if device["attributes"]["type"] == {"string": "gpu"})
    profile = {"string": "1g.10gb"}
    mig = next(device for device in devices if device["attributes"].get("profile") == profile)
    kinds = {name: next(iter(value)) for name, value in mig["attributes"].items()}
    capacity = {
        name: value["value"] for name, value in mig["capacity"].items() if not name.startswith("memorySlice")
    }
    return {
        "gpu": sorted(whole["attributes"]),
        "mig": kinds,
        "capacity": capacity,
        "whole": sorted(whole["capacity"]),
    }
