"""A session with kubectl: looking."""

from __future__ import annotations

import json
import re
import subprocess
import time
from typing import Any

import yaml

from tests.contract.answers import conditions
from tests.contract.api import Api
from tests.contract.manifests import configmap, job, pod, replicated
from tests.contract.shell import lines, told

FOLLOW_SECONDS = 4.0


def _two(api: Api) -> None:
    api.create("configmaps", configmap("a", {"k": "v"}, labels={"tier": "one"}))
    api.create("configmaps", configmap("b", {"k": "v", "l": "w"}))


def check_get_shows_columns(api: Api) -> Any:
    _two(api)
    return {
        "plain": told(api.run_kubectl("get", "cm", "a", "b")),
        "labels": told(api.run_kubectl("get", "configmaps", "-l", "tier", "--show-labels")),
        "columns": told(api.run_kubectl("get", "cm", "a", "-o", "custom-columns=N:.metadata.name,K:.data.k")),
        "headless": told(api.run_kubectl("get", "cm", "a", "--no-headers")),
        "sorted": told(api.run_kubectl("get", "cm", "-l", "tier", "-L", "tier", "--sort-by=.metadata.name")),
    }


def check_get_shows_wide_columns(api: Api) -> Any:
    api.create("deployments", replicated("a", replicas=0))
    api.create("statefulsets", replicated("b", replicas=0))
    api.wait("deployments", "a", lambda body: body["status"].get("observedGeneration"))
    wide = api.run_kubectl("get", "deploy,sts", "-o", "wide")
    return told(wide)


def check_get_writes_yaml_json_names_and_paths(api: Api) -> Any:
    _two(api)
    as_yaml = yaml.safe_load(api.run_kubectl("get", "cm", "a", "-o", "yaml").out)
    as_json = json.loads(api.run_kubectl("get", "cm", "a", "b", "-o", "json").out)
    return {
        "yaml": [as_yaml["kind"], as_yaml["data"], sorted(as_yaml["metadata"])],
        "json": [as_json["kind"], [item["kind"] for item in as_json["items"]]],
        "name": told(api.run_kubectl("get", "cm", "a", "b", "-o", "name")),
        "path": told(api.run_kubectl("get", "cm", "-l", "tier", "-o", "jsonpath={.items[*].data.k}")),
        "template": told(api.run_kubectl("get", "cm", "a", "-o", "go-template={{.metadata.name}}")),
    }


def check_get_says_what_is_not_there(api: Api) -> Any:
    return {
        "none": told(api.run_kubectl("get", "pods")),
        "name": told(api.run_kubectl("get", "pods", "absent")),
        "kind": told(api.run_kubectl("get", "wonders")),
        "field": told(api.run_kubectl("get", "pods", "--field-selector", "spec.wonder=x")),
    }


def check_get_watches(api: Api) -> Any:
    _two(api)
    out = api.run_kubectl(
        "get", "cm", "-l", "tier", "--watch", "--output-watch-events", "--request-timeout=2s"
    )
    return lines(out.out)


def check_get_shows_queues(api: Api) -> Any:
    flavor, queue, cohort = (api.name(word) for word in ("flavor", "queue", "cohort"))
    api.create("resourceflavors", {"metadata": {"name": flavor}})
    quota = {"name": "cpu", "nominalQuota": "1"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": [quota]}]}
    api.create(
        "clusterqueues",
        {"metadata": {"name": queue}, "spec": {"cohortName": cohort, "resourceGroups": [group]}},
    )
    api.wait("clusterqueues", queue, lambda body: conditions(body).get("Active") == "True")
    api.create("localqueues", {"metadata": {"name": "lq"}, "spec": {"clusterQueue": queue}})
    api.wait("localqueues", "lq", lambda body: conditions(body).get("Active") == "True")
    seen = {
        kind: told(api.run_kubectl("get", kind, name))
        for kind, name in (("cq", queue), ("lq", "lq"), ("rf", flavor))
    }
    return seen | {"wide": told(api.run_kubectl("get", "cq", queue, "-o", "wide"))}


def check_describe_tells_of_a_configmap(api: Api) -> Any:
    _two(api)
    return told(api.run_kubectl("describe", "cm", "a"))


def check_describe_tells_of_a_quota_and_a_role(api: Api) -> Any:
    api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}})
    api.wait("resourcequotas", "q", lambda body: body.get("status", {}).get("used"))
    api.create(
        "roles",
        {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    )
    return {
        "quota": told(api.run_kubectl("describe", "quota", "q")),
        "role": told(api.run_kubectl("describe", "role", "r")),
    }


def check_describe_tells_of_a_pod(api: Api) -> Any:
    api.create("pods", pod("a", labels={"app": "a"}))
    api.wait("pods", "a", lambda body: conditions(body).get("Ready") == "True")
    ran = api.run_kubectl("describe", "pod", "a")
    wanted = (
        "Name:",
        "Namespace:",
        "Labels:",
        "Status:",
        "Image:",
        "Command:",
        "QoS Class:",
        "Ready:",
        "Restart Count:",
    )
    shown = [line.strip() for line in lines(ran.out)]
    return {"code": ran.code, "out": [line for line in shown if line.startswith(wanted)]}


def check_describe_tells_of_a_job_and_its_events(api: Api) -> Any:
    api.create("jobs", job("a", seconds=1))
    api.wait("jobs", "a", lambda body: body["status"].get("completionTime"))
    ran = api.until(lambda: "Completed" in (found := api.run_kubectl("describe", "job", "a")).out and found)
    wanted = (
        "Parallelism:",
        "Completions:",
        "Completion Mode:",
        "Suspend:",
        "Backoff Limit:",
        "Pods Statuses:",
    )
    return [line for line in lines(ran.out) if line.startswith(wanted)]


def check_describe_tells_of_a_custom_resource(api: Api) -> Any:
    name = api.name("flavor")
    api.create("resourceflavors", {"metadata": {"name": name}, "spec": {"nodeLabels": {"a": "b"}}})
    out = lines(api.run_kubectl("describe", "resourceflavor", name).out)
    return [
        line
        for line in out
        if line.startswith(("Name:", "API Version:", "Kind:", "Spec:", "  Node Labels:", "    A:", "Events:"))
    ]


def check_api_resources_are_listed(api: Api) -> Any:
    names = ("configmaps", "jobs", "clusterqueues", "resourceclaims", "statefulsets", "networkpolicies")
    out = lines(api.run_kubectl("api-resources").out)
    wide = lines(api.run_kubectl("api-resources", "--api-group=apps", "-o", "wide").out)
    mine = ("deployments", "statefulsets", "NAME")
    kueue = lines(
        api.run_kubectl("api-resources", "--api-group=kueue.x-k8s.io", "--namespaced=false", "-o", "name").out
    )
    wanted = {"clusterqueues", "cohorts", "resourceflavors", "workloadpriorityclasses"}
    return {
        "plain": [out[0], *(line for line in out[1:] if line.split()[0] in names)],
        "wide": [line for line in wide if line.startswith(mine)],
        "kueue": sorted(name for name in kueue if name.partition(".")[0] in wanted),
    }


def check_explain_reads_the_schema(api: Api) -> Any:
    topics = (
        "configmap.data",
        "job.spec.suspend",
        "clusterqueue.spec.stopPolicy",
        "resourceclaim.spec.devices.requests.exactly.count",
    )
    return {topic: told(api.run_kubectl("explain", topic)) for topic in topics}


def check_explain_lists_fields(api: Api) -> Any:
    out = lines(api.run_kubectl("explain", "statefulset.spec").out)
    return [line for line in out if line.startswith("  ") and "\t" not in line and "<" in line]


def check_who_one_is_and_may_do_is_told(api: Api) -> Any:
    api.create("serviceaccounts", {"metadata": {"name": "a"}})
    account = f"--as=system:serviceaccount:{api.ns}:a"
    return {
        "yes": told(api.run_kubectl("auth", "can-i", "create", "jobs")),
        "no": told(api.run_kubectl("auth", "can-i", "create", "jobs", account)),
        "kind": told(api.run_kubectl("auth", "can-i", "get", "wonders")),
        "forbidden": told(api.run_kubectl("get", "pods", account)),
        "whoami": told(
            api.run_kubectl("auth", "whoami", account, "-o", "jsonpath={.status.userInfo.username}")
        ),
    }


def check_logs_show_the_last_lines(api: Api) -> Any:
    api.create("jobs", job("a", seconds=1))
    api.wait("jobs", "a", lambda body: body["status"].get("succeeded") == 1)
    two = api.run_kubectl("logs", "job/a", "--tail=2")
    absent, container = api.run_kubectl("logs", "absent"), api.run_kubectl("logs", "job/a", "-c", "x")
    told_of = re.sub(r"\ba-[a-z0-9]{5}\b", "POD", container.err).strip()
    return {"lines": len(two.out.splitlines()), "absent": told(absent), "container": told_of}


def check_logs_are_followed(api: Api) -> Any:
    api.create("pods", pod("a"))
    api.wait("pods", "a", lambda body: body["status"]["phase"] == "Running")
    api.until(lambda: api.run_kubectl("logs", "a").out)
    begin = time.monotonic()
    try:
        api.run_kubectl("logs", "-f", "a", "--tail=1", seconds=FOLLOW_SECONDS)
    except subprocess.TimeoutExpired as stopped:
        return {"lines": bool(stopped.stdout), "stays": time.monotonic() - begin >= FOLLOW_SECONDS}
    return {"stays": False}


def check_exec_runs_a_command(api: Api) -> Any:
    api.create("pods", pod("a"))
    api.wait("pods", "a", lambda body: body["status"]["phase"] == "Running")
    hello = api.run_kubectl("exec", "a", "--", "echo", "hello")
    absent = api.run_kubectl("exec", "absent", "--", "echo", "hello")
    return {"hello": told(hello), "absent": told(absent)}


def check_events_are_listed(api: Api) -> Any:
    api.create("pods", pod("a"))
    api.until(lambda: "Scheduled" in api.run_kubectl("events", "--for", "pod/a").out)
    out = lines(api.run_kubectl("get", "events", "--field-selector", "reason=Scheduled").out)
    return [out[0], out[1].split("  ")[1:4]]


def check_the_version_of_the_server_is_told(api: Api) -> Any:
    return [line for line in lines(api.run_kubectl("version").out) if line.startswith("Server")]


def check_raw_addresses_are_read(api: Api) -> Any:
    return {
        "ready": told(api.run_kubectl("get", "--raw", "/readyz")),
        "absent": told(api.run_kubectl("get", "--raw", "/nowhere")),
    }
