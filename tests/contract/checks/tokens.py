"""Who a bearer is: TokenRequest, its limits, its end, and reviews of tokens."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.contract.answers import Answer, Body
from tests.contract.api import Api


def _request(api: Api, account: str = "a", **spec: Any) -> Answer:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return api.request("POST", api.url("serviceaccounts", account, sub="token"), json=body)


def _account(api: Api) -> Answer:
    return api.create("serviceaccounts", {"metadata": {"name": "a"}})


def _claims(token: str) -> Body:
    part = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))


def _who(api: Api, token: str) -> Answer:
    return api.as_bearer(token).create("selfsubjectreviews", {})


def _ends(api: Api, token: str) -> bool:
    """The real server remembers a token that passed for ten seconds."""
    return bool(api.until(lambda: _who(api, token).status == 401))


def check_a_token_names_its_account(api: Api) -> Any:
    account = _account(api)
    answer = _request(api, expirationSeconds=3600)
    claims = _claims(answer.get("status.token"))
    assert claims["exp"] - claims["iat"] == 3600
    inner = claims["kubernetes.io"]
    assert inner["serviceaccount"]["uid"] == account.uid
    seen = answer.pick("kind", "spec.expirationSeconds", "spec.boundObjectRef")
    return {"answer": seen, "sub": claims["sub"], "keys": sorted(claims), "inner": sorted(inner)}


def check_a_token_opens_the_server(api: Api) -> Any:
    _account(api)
    user = _who(api, _request(api).get("status.token")).get("status.userInfo")
    return {"username": user["username"], "groups": user["groups"], "extra": sorted(user["extra"])}


def check_the_administrator_learns_who_they_are(api: Api) -> Any:
    answer = api.create("selfsubjectreviews", {})
    return {"kind": answer.get("kind"), "admitted": "system:masters" in answer.get("status.userInfo.groups")}


def check_a_token_lives_at_least_ten_minutes(api: Api) -> Any:
    _account(api)
    short = _request(api, expirationSeconds=599)
    long = _request(api, expirationSeconds=2**33)
    return {
        "short": short.refusal,
        "long": long.refusal,
        "default": _request(api).get("spec.expirationSeconds"),
    }


def check_a_token_for_an_absent_account_is_not_found(api: Api) -> Any:
    return _request(api, "absent").refusal


def check_a_token_bound_to_a_secret_ends_with_it(api: Api) -> Any:
    _account(api)
    secret = api.create("secrets", {"metadata": {"name": "lease"}})
    bound = {"apiVersion": "v1", "kind": "Secret", "name": "lease", "uid": secret.uid}
    answer = _request(api, boundObjectRef=bound, expirationSeconds=600)
    token = answer.get("status.token")
    before = _who(api, token).status
    api.delete("secrets", "lease")
    inner = _claims(token)["kubernetes.io"]["secret"]
    return {"before": before, "secret": inner, "ended": _ends(api, token)}


def check_a_token_ends_with_its_account(api: Api) -> Any:
    _account(api)
    token = _request(api).get("status.token")
    before = _who(api, token).status
    api.delete("serviceaccounts", "a")
    return {"before": before, "ended": _ends(api, token)}


def check_a_token_bound_to_what_is_absent_is_refused(api: Api) -> Any:
    _account(api)
    absent = {"apiVersion": "v1", "kind": "Secret", "name": "absent"}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}
    return {
        "absent": _request(api, boundObjectRef=absent).refusal,
        "kind": _request(api, boundObjectRef=other).refusal,
    }


def check_a_token_for_others_does_not_open_the_server(api: Api) -> Any:
    _account(api)
    token = _request(api, audiences=["elsewhere"]).get("status.token")
    return {"audience": _claims(token)["aud"], "refused": _who(api, token).refusal}


def check_a_token_that_nobody_gave_is_refused(api: Api) -> Any:
    _account(api)
    token = _request(api).get("status.token")
    head, _, tail = token.rpartition(".")
    forged = f"{head}.{tail[::-1]}"
    return {"made_up": _who(api, "made-up").refusal, "forged": _who(api, forged).refusal}


def check_a_review_tells_whose_token_it_is(api: Api) -> Any:
    _account(api)
    token = _request(api).get("status.token")
    good = api.create("tokenreviews", {"spec": {"token": token}})
    bad = api.create("tokenreviews", {"spec": {"token": "made-up"}})
    fields = ("status.authenticated", "status.user.username", "status.audiences")
    return {"good": good.pick(*fields), "bad": bad.pick(*fields)}


def check_a_secret_may_be_asked_to_hold_a_token(api: Api) -> Any:
    _account(api)
    annotations = {"kubernetes.io/service-account.name": "a"}
    body = {
        "metadata": {"name": "t", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }
    refused = api.create("secrets", {**body, "metadata": {"name": "u"}})
    return {"made": api.create("secrets", body).status, "without_account": refused.refusal}
