"""Events of what happens, and what a container wrote."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from tests.contract.answers import Answer
from tests.contract.api import Api
from tests.contract.manifests import job, pod

LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z ")


def _running(api: Api) -> str:
    api.create("pods", pod("a"))
    api.wait("pods", "a", lambda body: body["status"]["phase"] == "Running")
    # Without lines there is nothing to ask about.
    api.until(lambda: _log(api).body)
    return "a"


def _log(api: Api, pod_name: str = "a", **params: str) -> Answer:
    return api.request("GET", api.url("pods", pod_name, sub="log"), params=params)


def check_an_event_is_kept_as_given(api: Api) -> Any:
    involved = {"kind": "ConfigMap", "name": "a", "namespace": api.ns, "apiVersion": "v1"}
    body = {
        "metadata": {"name": "e"},
        "involvedObject": involved,
        "reason": "Seen",
        "message": "it was seen",
        "type": "Warning",
        "count": 3,
        "source": {"component": "watcher"},
    }
    answer = api.create("events", body)
    fields = ("involvedObject", "reason", "message", "type", "count", "source", "reportingComponent")
    return answer.pick(*fields)


def check_an_event_must_lie_where_its_object_is(api: Api) -> Any:
    involved = {"kind": "ConfigMap", "name": "a", "namespace": "default"}
    answer = api.create("events", {"metadata": {"name": "e"}, "involvedObject": involved, "reason": "Seen"})
    return answer.refusal


def check_the_scheduler_says_where_a_pod_went(api: Api) -> Any:
    api.create("pods", pod("a"))
    placed = api.wait("pods", "a", lambda body: body["spec"].get("nodeName"))
    selector = "involvedObject.name=a,reason=Scheduled"
    event = api.until(lambda: api.list("events", fieldSelector=selector).body["items"])[0]
    message = event["message"].replace(placed["spec"]["nodeName"], "NODE")
    return [event["type"], event["reason"], message, event["involvedObject"]["kind"]]


def _listed(api: Api, selector: str) -> Any:
    return api.list("events", fieldSelector=selector).body["items"]


def check_a_job_tells_of_its_pods(api: Api) -> Any:
    api.create("jobs", job("a", seconds=1))
    wanted = "involvedObject.kind=Job,involvedObject.name=a,reason="
    for last in ("SuccessfulCreate", "Completed"):
        api.until(partial(_listed, api, wanted + last))
    events = api.list("events", fieldSelector=wanted.removesuffix(",reason=")).body["items"]
    told = {
        (event["type"], event["reason"], re.sub(r"a-[a-z0-9]{5}\b", "POD", event["message"]))
        for event in events
    }
    return sorted(told)


def check_a_log_has_the_last_lines_asked_for(api: Api) -> Any:
    api.create("jobs", job("a", seconds=1))
    api.wait("jobs", "a", lambda body: body["status"].get("succeeded") == 1)
    # A finished pod has written a first and a last line at least.
    name = api.list("pods", labelSelector="job-name=a").names[0]
    counts = {str(n): len(_log(api, name, tailLines=str(n)).body.splitlines()) for n in (0, 1, 2)}
    return {"counts": counts, "letters": len(_log(api, name, limitBytes="7").body)}


def check_a_log_may_carry_times(api: Api) -> Any:
    _running(api)
    lines = _log(api, timestamps="true").body.splitlines()
    assert lines
    return all(LINE.match(line) for line in lines)


def check_a_log_request_that_makes_no_sense_is_refused(api: Api) -> Any:
    _running(api)
    container = _log(api, container="other")
    negative = _log(api, tailLines="-1")
    absent = _log(api, "absent")
    return {"container": container.refusal, "negative": negative.refusal, "absent": absent.refusal}


def check_a_pod_that_runs_nowhere_has_no_log(api: Api) -> Any:
    api.create("pods", pod("a", schedulerName="nobody"))
    return _log(api).refusal


def check_a_pod_of_two_containers_wants_to_know_which(api: Api) -> Any:
    body = pod("a")
    body["spec"]["containers"].append({"name": "side", "image": "registry.example/side:1"})
    api.create("pods", body)
    api.wait("pods", "a", lambda found: found["status"]["phase"] == "Running")
    named = api.until(lambda: (answer := _log(api, container="side")).status == 200 and answer)
    return {"unnamed": _log(api).refusal, "named": named.status}
