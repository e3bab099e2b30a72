"""Discovery, OpenAPI v3, health, and what an address that nobody serves answers."""

from __future__ import annotations

import json
from typing import Any

from tests.contract.answers import Body, pick
from tests.contract.api import Api

GROUPS = (
    "apps",
    "batch",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "kueue.x-k8s.io",
)
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _resources(api: Api, path: str, *names: str) -> Body:
    answer = api.request("GET", path)
    assert answer.status == 200
    by_name = {entry["name"]: entry for entry in answer.body["resources"]}
    fields = ("singularName", "namespaced", "kind", "group", "version", "shortNames", "categories")
    return {
        name: {
            **pick(by_name.get(name), *fields),
            "verbs": sorted((by_name.get(name) or {}).get("verbs", [])),
        }
        for name in names
    }


def check_the_version_is_that_of_the_release(api: Api) -> Any:
    answer = api.request("GET", "/version")
    assert answer.status == 200
    return answer.pick("major", "minor", "gitVersion")


def check_the_core_group_lists_its_version(api: Api) -> Any:
    return api.request("GET", "/api").pick("kind", "versions")


def check_the_groups_name_their_preferred_version(api: Api) -> Any:
    answer = api.request("GET", "/apis")
    preferred = {group["name"]: group["preferredVersion"]["groupVersion"] for group in answer.body["groups"]}
    assert set(GROUPS) <= set(preferred)
    return {name: preferred[name] for name in GROUPS}


def check_core_resources_have_their_verbs_and_short_names(api: Api) -> Any:
    names = ("namespaces", "nodes", "pods", "services", "configmaps", "secrets", "serviceaccounts", "events")
    return _resources(api, "/api/v1", *names, "persistentvolumeclaims", "resourcequotas", "limitranges")


def check_core_subresources_are_listed(api: Api) -> Any:
    names = (
        "pods/status",
        "pods/log",
        "pods/exec",
        "pods/binding",
        "serviceaccounts/token",
        "namespaces/finalize",
    )
    return _resources(api, "/api/v1", *names, "nodes/status", "resourcequotas/status")


def check_apps_resources_have_their_verbs_and_short_names(api: Api) -> Any:
    names = ("statefulsets", "deployments", "replicasets")
    subresources = [f"{name}/{sub}" for name in names for sub in ("status", "scale")]
    return _resources(api, "/apis/apps/v1", *names, *subresources)


def check_batch_resources_have_their_verbs(api: Api) -> Any:
    return _resources(api, "/apis/batch/v1", "jobs", "jobs/status")


def check_access_resources_have_their_verbs(api: Api) -> Any:
    names = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
    return _resources(api, "/apis/rbac.authorization.k8s.io/v1", *names)


def check_device_resources_have_their_verbs(api: Api) -> Any:
    names = (
        "deviceclasses",
        "resourceslices",
        "resourceclaims",
        "resourceclaims/status",
        "resourceclaimtemplates",
    )
    return _resources(api, "/apis/resource.k8s.io/v1", *names)


def check_queue_resources_have_their_verbs_and_short_names(api: Api) -> Any:
    names = (
        "resourceflavors",
        "clusterqueues",
        "localqueues",
        "cohorts",
        "workloads",
        "workloadpriorityclasses",
    )
    return _resources(api, "/apis/kueue.x-k8s.io/v1beta2", *names, "clusterqueues/status", "workloads/status")


def check_review_resources_can_only_be_created(api: Api) -> Any:
    reviews = _resources(api, "/apis/authentication.k8s.io/v1", "tokenreviews", "selfsubjectreviews")
    access = ("selfsubjectaccessreviews", "subjectaccessreviews", "selfsubjectrulesreviews")
    return reviews | _resources(api, "/apis/authorization.k8s.io/v1", *access)


def check_aggregated_discovery_tells_all_in_one_answer(api: Api) -> Any:
    answer = api.request("GET", "/apis", headers={"Accept": AGGREGATED})
    groups = {group["metadata"]["name"]: group["versions"] for group in answer.body["items"]}
    jobs = next(entry for entry in groups["batch"][0]["resources"] if entry["resource"] == "jobs")
    fields = ("responseKind", "scope", "singularResource", "categories")
    assert set(GROUPS) <= set(groups)
    return {"kind": answer.body["kind"], "jobs": pick(jobs, *fields), "verbs": sorted(jobs["verbs"])}


def check_openapi_v3_has_a_document_per_group_version(api: Api) -> Any:
    answer = api.request("GET", "/openapi/v3")
    # The real server calls this index plain text.
    paths = (answer.body if isinstance(answer.body, dict) else json.loads(answer.body))["paths"]
    wanted = (
        "api/v1",
        "apis/apps/v1",
        "apis/batch/v1",
        "apis/resource.k8s.io/v1",
        "apis/kueue.x-k8s.io/v1beta2",
    )
    return {name: paths[name]["serverRelativeURL"].partition("?")[0] for name in wanted}


def _schema(api: Api, document: str, ending: str) -> Body:
    answer = api.request("GET", f"/openapi/v3/{document}")
    assert answer.status == 200
    schemas: Body = answer.body["components"]["schemas"]
    return dict(next(schema for name, schema in schemas.items() if name.endswith(ending)))


def check_openapi_v3_describes_a_deployment(api: Api) -> Any:
    top = _schema(api, "apis/apps/v1", "apps.v1.Deployment")
    spec = _schema(api, "apis/apps/v1", "apps.v1.DeploymentSpec")
    kinds = top["x-kubernetes-group-version-kind"]
    return {"kinds": kinds, "fields": sorted(spec["properties"]), "required": sorted(spec["required"])}


def check_openapi_v3_tells_how_lists_of_a_pod_merge(api: Api) -> Any:
    properties = _schema(api, "api/v1", "core.v1.PodSpec")["properties"]
    prefix = "x-kubernetes-"
    names = ("containers", "volumes", "tolerations", "imagePullSecrets", "resourceClaims", "hostAliases")
    return {name: {k: v for k, v in properties[name].items() if k.startswith(prefix)} for name in names}


def check_openapi_v3_describes_a_cluster_queue(api: Api) -> Any:
    schema = _schema(api, "apis/kueue.x-k8s.io/v1beta2", "ClusterQueue")
    spec = schema["properties"]["spec"]["properties"]
    strategy = pick(spec["queueingStrategy"], "default", "enum", "type")
    return {
        "spec": sorted(spec),
        "queueingStrategy": strategy,
        "kinds": schema["x-kubernetes-group-version-kind"],
    }


def check_openapi_v3_lists_the_paths_of_a_kind(api: Api) -> Any:
    answer = api.request("GET", "/openapi/v3/apis/batch/v1")
    path = "/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
    operations = answer.body["paths"][path]
    verbs = [verb for verb in ("get", "put", "patch", "delete", "post") if verb in operations]
    return {"verbs": verbs, "patches": sorted(operations["patch"]["requestBody"]["content"])}


def check_health_is_told_to_anybody(api: Api) -> Any:
    nobody = api.as_bearer("")
    answers = {path: nobody.request("GET", path) for path in ("/livez", "/readyz", "/healthz", "/version")}
    return {path: [a.status, a.body if isinstance(a.body, str) else "json"] for path, a in answers.items()}


def check_an_address_that_nobody_serves_is_not_found(api: Api) -> Any:
    paths = (
        "/nowhere",
        "/apis/nobody.example/v1",
        "/api/v1/wonders",
        "/apis/batch/v1/namespaces/default/wonders",
    )
    return {path: api.request("GET", path).refusal for path in paths}


def check_a_verb_that_a_resource_lacks_is_refused(api: Api) -> Any:
    post = api.request("POST", "/api/v1/namespaces/default/configmaps/a", json={})
    review = api.request("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    return {"post_to_an_object": post.refusal, "list_reviews": review.refusal}
