"""A session with kubectl: changing."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.contract.answers import Body
from tests.contract.api import Api, Ran
from tests.contract.manifests import configmap, job, pod, replicated
from tests.contract.shell import told


def _document(resource: str, body: Body) -> str:
    kinds = {
        "cm": ("v1", "ConfigMap"),
        "deploy": ("apps/v1", "Deployment"),
        "job": ("batch/v1", "Job"),
        "pod": ("v1", "Pod"),
    }
    version, kind = kinds[resource]
    return str(yaml.safe_dump({"apiVersion": version, "kind": kind, **body}))


def _apply(api: Api, body: Body, *flags: str, resource: str = "cm") -> Ran:
    return api.run_kubectl("apply", "-f", "-", *flags, stdin=_document(resource, body))


def check_apply_remembers_what_was_applied(api: Api) -> Any:
    first = _apply(api, configmap("a", {"k": "1", "gone": "x"}))
    again = _apply(api, configmap("a", {"k": "1", "gone": "x"}))
    less = _apply(api, configmap("a", {"k": "2"}))
    stored = api.read("configmaps", "a")
    note = json.loads(stored.get("metadata.annotations")["kubectl.kubernetes.io/last-applied-configuration"])
    return {
        "said": [told(ran) for ran in (first, again, less)],
        "data": stored.get("data"),
        "noted": note["data"],
    }


def check_apply_merges_lists_by_name(api: Api) -> Any:
    _apply(api, replicated("a", replicas=0), resource="deploy")
    added = [
        {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "side", "image": "x:1"}}
    ]
    api.patch("deployments", "a", added, media="application/json-patch+json")
    ran = _apply(api, replicated("a", replicas=0, minReadySeconds=3), resource="deploy")
    containers = api.read("deployments", "a").get("spec.template.spec.containers")
    return {"said": told(ran), "containers": [entry["name"] for entry in containers]}


def check_server_side_apply_conflicts_and_forces(api: Api) -> Any:
    flags = ("--server-side", "--field-manager=one")
    first = _apply(api, configmap("a", {"k": "1"}), *flags)
    other = ("--server-side", "--field-manager=two")
    conflict = _apply(api, configmap("a", {"k": "2"}), *other)
    forced = _apply(api, configmap("a", {"k": "2"}), *other, "--force-conflicts")
    return [told(ran) for ran in (first, conflict, forced)]


def check_a_client_side_apply_turns_server_side(api: Api) -> Any:
    _apply(api, configmap("a", {"k": "1", "gone": "x"}))
    ran = _apply(api, configmap("a", {"k": "1"}), "--server-side")
    owners = api.read("configmaps", "a").get("metadata.managedFields")
    return {
        "said": told(ran),
        "data": api.read("configmaps", "a").get("data"),
        "owners": sorted(o["manager"] for o in owners),
    }


def check_a_wrong_document_is_refused_before_it_is_sent(api: Api) -> Any:
    unknown = _apply(api, {**configmap("a"), "wonder": True})
    wrong = _apply(
        api, {"metadata": {"name": "a"}, "spec": {"template": {}, "suspend": "yes"}}, resource="job"
    )
    kind = api.run_kubectl("apply", "-f", "-", stdin="apiVersion: v1\nkind: Wonder\nmetadata: {name: a}\n")
    return {"unknown": told(unknown), "wrong": wrong.code, "kind": told(kind)}


def check_a_dry_run_shows_what_would_be(api: Api) -> Any:
    server = _apply(api, configmap("a"), "--dry-run=server")
    client = api.run_kubectl("create", "cm", "b", "--from-literal=k=v", "--dry-run=client", "-o", "yaml")
    return {
        "server": told(server),
        "client": yaml.safe_load(client.out)["data"],
        "stored": api.list("configmaps", fieldSelector="metadata.name=a").names,
    }


def check_create_makes_the_common_kinds(api: Api) -> Any:
    commands = (
        ("configmap", "a", "--from-literal=k=v"),
        ("secret", "generic", "s", "--from-literal=k=v"),
        ("serviceaccount", "sa"),
        ("deployment", "d", "--image=x:1", "--replicas=0"),
        ("job", "j", "--image=x:1"),
        ("role", "r", "--verb=get,list", "--resource=pods,jobs.batch"),
        ("rolebinding", "rb", "--role=r", "--serviceaccount=default:default"),
        ("quota", "q", "--hard=pods=9"),
        ("service", "clusterip", "svc", "--tcp=80:8080"),
    )
    return {" ".join(command[:2]): told(api.run_kubectl("create", *command)) for command in commands}


def check_create_refuses_what_is_there(api: Api) -> Any:
    api.run_kubectl("create", "cm", "a")
    return {
        "again": told(api.run_kubectl("create", "cm", "a")),
        "name": told(api.run_kubectl("create", "cm", "A B")),
    }


def check_create_gives_a_token(api: Api) -> Any:
    api.run_kubectl("create", "sa", "a")
    good = api.run_kubectl("create", "token", "a", "--duration=1h")
    return {
        "parts": len(good.out.strip().split(".")),
        "absent": told(api.run_kubectl("create", "token", "absent")),
    }


def check_run_starts_a_pod(api: Api) -> Any:
    ran = api.run_kubectl("run", "a", "--image=registry.example/tool:1", "--restart=Never")
    ready = api.run_kubectl("wait", "pod/a", "--for=condition=Ready", "--timeout=20s")
    return [told(ran), told(ready)]


def check_patch_says_whether_it_changed_something(api: Api) -> Any:
    api.create("configmaps", configmap("a", {"k": "1"}))
    merge = ("patch", "cm", "a", "--type=merge", "-p", '{"data":{"k":"2"}}')
    steps = '[{"op":"replace","path":"/data/k","value":"3"}]'
    return [
        told(api.run_kubectl(*merge)),
        told(api.run_kubectl(*merge)),
        told(api.run_kubectl("patch", "cm", "a", "--type=json", "-p", steps)),
        told(api.run_kubectl("patch", "cm", "a", "-p", '{"data":{"k":"4"}}')),
        told(api.run_kubectl("patch", "cm", "absent", "-p", "{}")),
    ]


def check_a_status_is_patched(api: Api) -> Any:
    api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    ran = api.run_kubectl(
        "patch",
        "quota",
        "q",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"hard":{"x.y/z":"1"}}}',
    )
    return told(ran)


def check_labels_and_annotations_are_set(api: Api) -> Any:
    api.create("configmaps", configmap("a", labels={"l": "m"}))
    commands = (
        ("label", "cm", "a", "n=o"),
        ("label", "cm", "a", "l=x"),
        ("label", "cm", "a", "l=x", "--overwrite"),
    )
    more = (
        ("label", "cm", "a", "n-"),
        ("annotate", "cm", "a", "note=words"),
        ("label", "cm", "a", "bad=a b"),
    )
    seen = [told(api.run_kubectl(*command)) for command in (*commands, *more)]
    return {"said": seen, "labels": api.read("configmaps", "a").get("metadata.labels")}


def check_delete_waits_until_it_is_gone(api: Api) -> Any:
    api.create("pods", pod("p"))
    for name in ("a", "b", "c"):
        api.create("configmaps", configmap(name, labels={"tier": "x" if name != "a" else "y"}))
    return {
        "one": told(api.run_kubectl("delete", "cm", "a")),
        "many": told(api.run_kubectl("delete", "cm", "-l", "tier=x")),
        "absent": told(api.run_kubectl("delete", "cm", "a")),
        "ignored": told(api.run_kubectl("delete", "cm", "a", "--ignore-not-found")),
        "pod": told(api.run_kubectl("delete", "pod", "p", "--now")),
        "gone": api.read("pods", "p").status,
    }


def check_wait_ends_when_it_is_so(api: Api) -> Any:
    api.create("jobs", job("j", seconds=1))
    api.create("configmaps", configmap("a", {"k": "v"}))
    return {
        "job": told(api.run_kubectl("wait", "job/j", "--for=condition=Complete", "--timeout=30s")),
        "path": told(api.run_kubectl("wait", "cm/a", "--for=jsonpath={.data.k}=v", "--timeout=5s")),
        "late": told(api.run_kubectl("wait", "cm/a", "--for=jsonpath={.data.k}=w", "--timeout=1s")),
        "absent": told(api.run_kubectl("wait", "cm/x", "--for=delete", "--timeout=1s")),
    }


def check_scale_changes_replicas(api: Api) -> Any:
    api.create("statefulsets", replicated("a", replicas=0))
    up = api.run_kubectl("scale", "sts/a", "--replicas=1")
    wrong = api.run_kubectl("scale", "sts/a", "--replicas=2", "--current-replicas=7")
    return {
        "up": told(up),
        "wrong": told(wrong),
        "replicas": api.read("statefulsets", "a").get("spec.replicas"),
    }


def check_rollout_waits_restarts_and_goes_back(api: Api) -> Any:
    api.create("deployments", replicated("a", replicas=1))
    status = api.run_kubectl("rollout", "status", "deploy/a", "--timeout=30s")
    image = api.run_kubectl("set", "image", "deploy/a", "main=registry.example/tool:2")
    api.run_kubectl("rollout", "status", "deploy/a", "--timeout=30s")
    history = api.run_kubectl("rollout", "history", "deploy/a")
    undo = api.run_kubectl("rollout", "undo", "deploy/a")
    restart = api.run_kubectl("rollout", "restart", "deploy/a")
    last = told(status)["out"][-1]
    back = api.read("deployments", "a").get("spec.template.spec.containers.0.image")
    return {
        "status": last,
        "image": told(image),
        "history": told(history),
        "undo": told(undo),
        "restart": told(restart),
        "back": back,
    }


def check_rollout_of_a_stateful_set_is_waited_for(api: Api) -> Any:
    api.create("statefulsets", replicated("a", replicas=1))
    ran = api.run_kubectl("rollout", "status", "sts/a", "--timeout=30s")
    return [ran.code, "complete" in ran.out or "roll out complete" in ran.out]


def check_diff_shows_what_would_change(api: Api) -> Any:
    _apply(api, configmap("a", {"k": "1"}))
    same = api.run_kubectl("diff", "-f", "-", stdin=_document("cm", configmap("a", {"k": "1"})))
    other = api.run_kubectl("diff", "-f", "-", stdin=_document("cm", configmap("a", {"k": "2"})))
    changed = [line for line in other.out.splitlines() if line.startswith(("+ ", "- "))]
    return {
        "same": told(same),
        "other": other.code,
        "changed": [
            line
            for line in changed
            if "annotation" not in line and "last-applied" not in line and "{" not in line
        ],
    }


def check_a_node_is_cordoned(api: Api) -> Any:
    name = api.name("node")
    taint = {"key": "example.com/own", "effect": "NoSchedule"}
    api.create("nodes", {"metadata": {"name": name}, "spec": {"taints": [taint]}})
    on = api.run_kubectl("cordon", name)
    again = api.run_kubectl("cordon", name)
    unschedulable = api.read("nodes", name).get("spec.unschedulable")
    off = api.run_kubectl("uncordon", name)
    tainted = api.run_kubectl("taint", "nodes", name, "k=v:NoSchedule")
    return {"said": [told(ran) for ran in (on, again, off, tainted)], "unschedulable": unschedulable}


def check_replace_needs_what_is_there(api: Api) -> Any:
    absent = api.run_kubectl("replace", "-f", "-", stdin=_document("cm", configmap("a")))
    api.create("configmaps", configmap("a", {"k": "1"}))
    there = api.run_kubectl("replace", "-f", "-", stdin=_document("cm", configmap("a", {"k": "2"})))
    return [told(absent), told(there)]


def check_expose_makes_a_service(api: Api) -> Any:
    api.create("deployments", replicated("a", replicas=0))
    ran = api.run_kubectl("expose", "deploy/a", "--port=80", "--target-port=8080")
    return {"said": told(ran), "spec": api.read("services", "a").pick("spec.selector", "spec.ports")}
