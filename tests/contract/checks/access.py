"""Who may do what: roles and bindings, refusals, `auth can-i`, and nobody gives more than they have."""

from __future__ import annotations

from typing import Any

from tests.contract.answers import Body
from tests.contract.api import Api
from tests.contract.manifests import configmap

READ: Body = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}


def _bearer(api: Api, name: str = "a") -> Api:
    api.create("serviceaccounts", {"metadata": {"name": name}})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = api.request("POST", api.url("serviceaccounts", name, sub="token"), json=body)
    return api.as_bearer(answer.get("status.token"))


def _grant(api: Api, *rules: Body, account: str = "a") -> None:
    api.create("roles", {"metadata": {"name": "r"}, "rules": list(rules)})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": api.ns}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    assert (
        api.create(
            "rolebindings", {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]}
        ).status
        == 201
    )


def _can(api: Api, verb: str, resource: str, group: str = "", **more: str) -> bool:
    attributes = {"namespace": api.ns, "verb": verb, "resource": resource, "group": group, **more}
    answer = api.create("selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}})
    return bool(answer.get("status.allowed"))


def check_an_account_without_a_role_is_refused(api: Api) -> Any:
    user = _bearer(api)
    answers = {
        "list": user.list("configmaps"),
        "get": user.read("secrets", "x"),
        "create": user.create("jobs", {"metadata": {"name": "x"}}),
        "delete": user.delete("pods", "x"),
        "patch": user.patch("statefulsets", "x", {}),
        "everywhere": user.list("pods", ns="*"),
        "cluster": user.list("nodes"),
        "scale": user.request("GET", user.url("deployments", "x", sub="scale")),
        "log": user.request("GET", user.url("pods", "x", sub="log")),
        "collection": user.delete("configmaps"),
    }
    assert {answer.status for answer in answers.values()} == {403}
    return {what: answer.refusal for what, answer in answers.items()}


def check_a_role_opens_exactly_what_it_names(api: Api) -> Any:
    user = _bearer(api)
    _grant(api, READ)
    api.until(lambda: user.list("configmaps").status == 200)
    other = user.list("configmaps", ns="default")
    return {"write": user.create("configmaps", configmap("x")).status, "elsewhere": other.refusal}


def check_a_role_may_name_single_objects(api: Api) -> Any:
    user = _bearer(api)
    _grant(api, {**READ, "resourceNames": ["one"]})
    for name in ("one", "two"):
        api.create("configmaps", configmap(name))
    api.until(lambda: user.read("configmaps", "one").status == 200)
    by_field = user.list("configmaps", fieldSelector="metadata.name=one")
    return [user.read("configmaps", "two").status, user.list("configmaps").status, by_field.status]


def check_a_subresource_is_a_right_of_its_own(api: Api) -> Any:
    user = _bearer(api)
    _grant(api, {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]})
    api.until(lambda: user.list("pods").status == 200)
    return [user.request("GET", user.url("pods", "x", sub="log")).status, user.read("pods", "x").status]


def check_a_cluster_role_bound_in_a_namespace_stays_there(api: Api) -> Any:
    user = _bearer(api)
    name = api.name("role")
    api.create("clusterroles", {"metadata": {"name": name}, "rules": [READ]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    group = {
        "kind": "Group",
        "name": f"system:serviceaccounts:{api.ns}",
        "apiGroup": "rbac.authorization.k8s.io",
    }
    api.create("rolebindings", {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [group]})
    api.until(lambda: user.list("configmaps").status == 200)
    return [user.list("configmaps", ns="default").status, user.list("configmaps", ns="*").status]


def check_a_cluster_role_bound_for_all_counts_everywhere(api: Api) -> Any:
    user = _bearer(api)
    name = api.name("role")
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}
    api.create("clusterroles", {"metadata": {"name": name}, "rules": [READ, nodes]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": "a", "namespace": api.ns}
    api.create(
        "clusterrolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    )
    api.until(lambda: user.list("nodes").status == 200)
    return user.list("configmaps", ns="default").status


def check_anybody_may_ask_what_they_may_do(api: Api) -> Any:
    user = _bearer(api)
    _grant(api, READ, {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]})
    api.until(lambda: _can(user, "get", "configmaps"))
    questions = (
        ("create", "configmaps", ""),
        ("create", "jobs", "batch"),
        ("create", "jobs", ""),
        ("*", "*", "*"),
    )
    return {" ".join(question): _can(user, *question) for question in questions}


def check_the_rules_of_a_namespace_are_listed(api: Api) -> Any:
    user = _bearer(api)
    _grant(api, READ)
    api.until(lambda: _can(user, "get", "configmaps"))
    answer = user.create("selfsubjectrulesreviews", {"spec": {"namespace": api.ns}})
    mine = [rule for rule in answer.get("status.resourceRules") if "configmaps" in rule["resources"]]
    return {"mine": mine, "incomplete": answer.get("status.incomplete")}


def check_the_administrator_may_ask_about_others(api: Api) -> Any:
    _bearer(api)
    _grant(api, READ)
    user = f"system:serviceaccount:{api.ns}:a"
    attributes = {"namespace": api.ns, "verb": "list", "resource": "configmaps"}
    review = {"spec": {"user": user, "resourceAttributes": attributes}}
    yes = api.until(lambda: (a := api.create("subjectaccessreviews", review)).get("status.allowed") and a)
    attributes["verb"] = "delete"
    no = api.create("subjectaccessreviews", review)
    empty = api.create("subjectaccessreviews", {"spec": {"user": user}})
    return {"yes": yes.get("status"), "no": no.get("status"), "empty": empty.refusal}


def check_nobody_gives_more_than_they_have(api: Api) -> Any:
    user = _bearer(api)
    rules = {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "rolebindings"],
        "verbs": ["get", "list", "create"],
    }
    _grant(api, READ, rules)
    api.until(lambda: user.list("roles").status == 200)
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    more = user.create("roles", {"metadata": {"name": "more"}, "rules": [secrets]})
    same = user.create("roles", {"metadata": {"name": "same"}, "rules": [READ]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    bind = user.create("rolebindings", {"metadata": {"name": "x"}, "roleRef": reference, "subjects": []})
    return {"more": more.refusal, "same": same.status, "bind": bind.refusal}


def check_a_binding_keeps_its_role(api: Api) -> Any:
    _bearer(api)
    _grant(api, READ)
    answer = api.patch("rolebindings", "r", {"roleRef": {"name": "other"}})
    wrong = api.create(
        "rolebindings", {"metadata": {"name": "w"}, "roleRef": {"kind": "Wonder", "name": "x"}}
    )
    return {"changed": answer.refusal, "wrong": [wrong.status, wrong.get("reason")]}


def check_a_rule_needs_verbs_and_resources(api: Api) -> Any:
    answer = api.create(
        "roles", {"metadata": {"name": "x"}, "rules": [{"apiGroups": [""], "resources": ["pods"]}]}
    )
    url = {"nonResourceURLs": ["/x"], "verbs": ["get"]}
    return {
        "verbs": answer.refusal,
        "url": api.create("roles", {"metadata": {"name": "y"}, "rules": [url]}).refusal,
    }


def check_roles_are_gathered_by_label(api: Api) -> Any:
    label = {"gathered": api.name("x")}
    name = api.name("sum")
    rule = {"clusterRoleSelectors": [{"matchLabels": label}]}
    api.create("clusterroles", {"metadata": {"name": name}, "aggregationRule": rule, "rules": []})
    api.create("clusterroles", {"metadata": {"name": api.name("part"), "labels": label}, "rules": [READ]})
    return api.wait("clusterroles", name, lambda body: body.get("rules"))["rules"]


def check_nobody_in_particular_is_refused(api: Api) -> Any:
    nobody = api.as_bearer("")
    return {"list": nobody.list("pods", ns="default").refusal, "apis": nobody.request("GET", "/apis").status}


def check_the_administrator_may_act_as_another(api: Api) -> Any:
    headers = {"Impersonate-User": "rosa", "Impersonate-Group": "research"}
    who = api.request(
        "POST",
        api.url("selfsubjectreviews"),
        json={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        headers=headers,
    )
    refused = api.request("GET", api.url("pods"), headers=headers)
    user = _bearer(api)
    other = user.request("GET", api.url("pods"), headers=headers)
    info = who.get("status.userInfo")
    return {
        "user": info["username"],
        "groups": info["groups"],
        "refused": refused.refusal,
        "other": other.refusal,
    }


def check_the_first_roles_are_there(api: Api) -> Any:
    names = ("cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user")
    roles = {name: api.read("clusterroles", name) for name in names}
    return {name: [role.status, role.get("metadata.labels")] for name, role in roles.items()}
