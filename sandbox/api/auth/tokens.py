"""Who asks: bearer tokens of the administrator and of service accounts, bound to objects that can be deleted.

No passwords, no certificates.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import orjson

from sandbox.api.auth.users import ADMIN_GROUP, User
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, dig, name_of, namespace_of, timestamp
from sandbox.api.storage.store import Place, Store

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

ISSUER = "https://kubernetes.default.svc"
ADMIN = User("sandbox-admin", (ADMIN_GROUP, "system:authenticated"))
_SHORTEST, _LONGEST, _USUAL = 600, 1 << 32, 3600
_BOUND = {"Secret": "secrets", "Pod": "pods", "Node": "nodes"}


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _remembered_secret(store: Store, name: str) -> str:
    kept = store.fact(name)
    if kept is None:
        kept = secrets.token_urlsafe(32)
        store.remember(name, kept)
    return kept


def wall_now() -> datetime:
    """Tokens expire by wall time: clients hold them over changes of the simulated speed."""
    return datetime.now(UTC)


class Tokens:
    """Issues and reads tokens. The key lives in the state file, so tokens outlive a restart."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._key = _remembered_secret(cluster.store, "token-key").encode()
        self.admin = _remembered_secret(cluster.store, "admin-token")

    def user(self, token: str) -> User | None:
        """The bearer, or None when the token is unknown, expired or revoked."""
        if hmac.compare_digest(token, self.admin):
            return ADMIN
        claims = self._claims(token)
        return None if claims is None else self._account(claims)

    def _claims(self, token: str) -> Obj | None:
        head, _, signature = token.rpartition(".")
        good = _b64(hmac.digest(self._key, head.encode(), hashlib.sha256))
        if not head or not hmac.compare_digest(signature, good):
            return None
        claims: Obj = orjson.loads(_unb64(head.partition(".")[2]))
        alive = claims["exp"] > wall_now().timestamp()
        return claims if alive and ISSUER in claims["aud"] else None

    def _account(self, claims: Obj) -> User | None:
        bound = claims["kubernetes.io"]
        space, account = bound["namespace"], bound["serviceaccount"]
        checks = [("serviceaccounts", space, account)]
        checks += [
            (plural, "" if plural == "nodes" else space, bound[kind.lower()])
            for kind, plural in _BOUND.items()
            if kind.lower() in bound
        ]
        for resource, namespace, wanted in checks:
            found = self._cluster.store.get(resource, Place(namespace, wanted["name"]))
            if found is None or found.obj["metadata"]["uid"] != wanted["uid"]:
                return None
        name = f"system:serviceaccount:{space}:{account['name']}"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated")
        return User(
            name,
            groups,
            account["uid"],
            {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]},
        )

    def issue(self, account: Obj, spec: Obj) -> tuple[str, str]:
        """A token for a service account and its expiry, by TokenRequest's spec (seconds; at least 600)."""
        seconds = int(spec.get("expirationSeconds") or _USUAL)
        field = "spec.expirationSeconds"
        if not _SHORTEST <= seconds <= _LONGEST:
            why = (
                "may not specify a duration less than 10 minutes"
                if seconds < _SHORTEST
                else "may not specify a duration larger than 2^32 seconds"
            )
            raise errors.invalid(
                "TokenRequest", "authentication.k8s.io", "", [errors.invalid_value(field, seconds, why)]
            )
        now = wall_now()
        expiry = now + timedelta(seconds=seconds)
        private: Obj = {
            "namespace": namespace_of(account),
            "serviceaccount": {"name": name_of(account), "uid": account["metadata"]["uid"]},
        }
        reference = spec.get("boundObjectRef")
        if reference:
            private[reference["kind"].lower()] = self._bind(account, reference)
        claims = {
            "iss": ISSUER,
            "aud": spec.get("audiences") or [ISSUER],
            "iat": int(now.timestamp()),
            "nbf": int(now.timestamp()),
            "exp": int(expiry.timestamp()),
            "jti": secrets.token_hex(16),
            "kubernetes.io": private,
            "sub": f"system:serviceaccount:{namespace_of(account)}:{name_of(account)}",
        }
        head = f"{_b64(orjson.dumps({'alg': 'HS256', 'typ': 'JWT'}))}.{_b64(orjson.dumps(claims))}"
        return f"{head}.{_b64(hmac.digest(self._key, head.encode(), hashlib.sha256))}", timestamp(expiry)

    def _bind(self, account: Obj, reference: Obj) -> Obj:
        kind, name = str(reference.get("kind", "")), str(reference.get("name", ""))
        if kind not in _BOUND:
            raise errors.bad_request(f"cannot bind token to object of type /v1, Kind={kind}")
        plural = _BOUND[kind]
        found = self._cluster.store.get(plural, Place("" if kind == "Node" else namespace_of(account), name))
        if found is None:
            raise errors.not_found(plural, "", name)
        uid = found.obj["metadata"]["uid"]
        if reference.get("uid") and reference["uid"] != uid:
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in "
                "record. The object might have been deleted and then recreated"
            )
            raise errors.conflict(plural, "", name, why)
        return {"name": name, "uid": uid}

    def bearer(self, header: str) -> User | None:
        """The user of an Authorization header; None without one, 401 for a bad one."""
        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            return None
        user = self.user(token.strip())
        if user is None:
            raise errors.ApiError(401, "Unauthorized")
        return user


def token_reply(body: Obj, account: Obj, token: str, expiry: str) -> Obj:
    """The TokenRequest as answered."""
    spec = body.get("spec", {})
    full = {
        "audiences": spec.get("audiences") or [ISSUER],
        "expirationSeconds": int(spec.get("expirationSeconds") or _USUAL),
        "boundObjectRef": spec.get("boundObjectRef"),
    }
    metadata = {
        "name": name_of(account),
        "namespace": namespace_of(account),
        "uid": account["metadata"]["uid"],
        "creationTimestamp": timestamp(wall_now()),
    }
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": metadata,
        "spec": full,
        "status": {"token": token, "expirationTimestamp": expiry},
    }


def review_status(tokens: Tokens, token: str) -> Obj:
    """TokenReview's status."""
    user = tokens.user(token)
    if user is None:
        return {"user": {}, "error": "[invalid bearer token, Token has been invalidated]"}
    return {"authenticated": True, "user": user_info(user), "audiences": [ISSUER]}


def user_info(user: User) -> Obj:
    """authentication.k8s.io UserInfo."""
    pairs = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": user.extra}
    return {key: value for key, value in pairs.items() if dig(pairs, key)}
