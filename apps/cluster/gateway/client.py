"""The one implementation of the gateway, and the only importer of the Kubernetes client library.

From that library come credentials, TLS and the connection pool; objects stay plain JSON, because its typed
models are slow and drop fields they do not know. Every call has a time limit, every error leaves as one of
`apps.cluster.errors`.
"""

import hashlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import orjson
import urllib3
from django.conf import settings
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_kube_config, load_kube_config_from_dict

from apps.cluster.errors import Conflict, Rejected, Throttled, Unreachable
from apps.cluster.gateway import answers, calls, executing, following, forwarding, kubeconfig, mounted
from apps.cluster.gateway.addresses import server_problem
from apps.cluster.gateway.calls import Call
from apps.cluster.gateway.certificates import endpoint_of, own_of
from apps.cluster.gateway.connecting import OnceMore, settle
from apps.cluster.gateway.watch_stream import KubernetesWatch
from apps.cluster.objects.kinds import ACCESS_REVIEW, KINDS, TOKEN_REQUEST, KindInfo
from apps.cluster.objects.names import MANAGER
from apps.cluster.specs import Body, Endpoint, Manifest, ObjectRef, Page, ref_of

_CONNECT, _READ = 3.0, 15.0
_QUIET_WATCH = 90.0
"""Servers send a bookmark about every minute; a watch silent for longer is dead and is opened again."""
_OTHER_UID = ("does not match the UID", "UID in precondition")
_PAGE = 250
"""Objects of a list at once. Two lists come at a time, and each object is some 20 KB in memory."""
_MOST_LOG_BYTES, _CHUNK = 1024 * 1024, 64 * 1024
_CONNECTIONS = 48
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
"""Its warnings repeat what we raise."""

Query = Sequence[tuple[str, str]]


class KubernetesGateway:
    """A `Gateway` over HTTPS; safe to use from several threads."""

    def __init__(self, api: ApiClient, *, is_guarded: bool) -> None:
        self._api = api
        self._pool: urllib3.PoolManager = api.rest_client.pool_manager
        # Behind a proxy of the operator's own (HTTPS_PROXY) the proxy decides where a connection leads.
        self._is_guarded = is_guarded and not isinstance(self._pool, urllib3.ProxyManager)
        settle(self._pool, is_guarded=self._is_guarded)
        self._quiet_until = 0.0

    def apply(self, manifest: Manifest, *, force: bool = False, dry_run: bool = False) -> Body:
        """See `Gateway.apply`."""
        query = [("fieldManager", MANAGER), ("force", str(force).lower()), ("fieldValidation", "Strict")]
        query += _given(dryRun="All" if dry_run else "")
        sent, call = orjson.dumps(manifest), Call("dry-run" if dry_run else "apply", ref_of(manifest))
        return self._json(
            "PATCH", _path(call.ref), query, call=call, body=sent, kind="application/apply-patch+yaml"
        )

    def merge(self, ref: ObjectRef, changes: Manifest, *, resource_version: str) -> Body:
        """See `Gateway.merge`."""
        query = [("fieldManager", MANAGER), ("fieldValidation", "Strict")]
        body = {**changes, "metadata": {**changes.get("metadata", {}), "resourceVersion": resource_version}}
        kind = "application/merge-patch+json"
        return self._json("PATCH", _path(ref), query, call=Call("patch", ref), body=body, kind=kind)

    def get(self, ref: ObjectRef) -> Body | None:
        """See `Gateway.get`."""
        try:
            return self._json("GET", _path(ref), call=Call("get", ref))
        except Rejected as error:
            if error.is_absent:
                return None
            raise

    def look(self, ref: ObjectRef) -> Body | None:
        """See `Gateway.look`."""
        asked = _given(fieldSelector=f"metadata.name={ref.name}")
        return next(iter(self._json("GET", _path(ref._replace(name="")), asked).get("items") or ()), None)

    def delete(self, ref: ObjectRef, *, uid: str) -> bool:
        """See `Gateway.delete`. The background policy is said: a Job's own default leaves its pods behind."""
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            self._json("DELETE", _path(ref), call=Call("delete", ref), body=options, kind="application/json")
        except Rejected as error:
            if error.is_absent or any(words in error.message for words in _OTHER_UID):
                return False
            if isinstance(error, Conflict) and "ensuring all content is removed" in error.message:
                return True
            raise
        return True

    def list(self, kind: str, *, label_selector: str = "", namespace: str = "") -> tuple[list[Body], str]:
        """See `Gateway.list`."""
        items, version, going_on = self.page(kind, label_selector=label_selector, namespace=namespace)
        while going_on:
            more = self.page(kind, label_selector=label_selector, namespace=namespace, going_on=going_on)
            items, going_on = items + more.items, more.going_on
        return items, version

    def page(self, kind: str, *, label_selector: str = "", namespace: str = "", going_on: str = "") -> Page:
        """See `Gateway.page`."""
        query = [("limit", str(_PAGE)), *_given(labelSelector=label_selector, **{"continue": going_on})]
        found = self._json("GET", KINDS[kind].path(namespace), query)
        place = found["metadata"]
        return Page(found.get("items") or [], place.get("resourceVersion", ""), place.get("continue", ""))

    def watch(
        self, kind: str, resource_version: str, timeout_seconds: int, *, label_selector: str = ""
    ) -> KubernetesWatch:
        """See `Gateway.watch`."""
        query = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(timeout_seconds)),
            *_given(resourceVersion=resource_version, labelSelector=label_selector),
        ]
        return KubernetesWatch(self._call("GET", KINDS[kind].path(), query, read=_QUIET_WATCH))

    def pod_log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        previous: bool = False,
        tail_lines: int = 0,
        since_seconds: int = 0,
    ) -> str:
        """See `Gateway.pod_log`."""
        query = _given(
            container=container,
            previous="true" if previous else "",
            tailLines=tail_lines or "",
            sinceSeconds=since_seconds or "",
            limitBytes=_MOST_LOG_BYTES,
        )
        path = _path(ObjectRef("Pod", namespace, pod)) + "/log"
        return _read(self._call("GET", path, query)).decode(errors="replace")

    def read_log(
        self, namespace: str, pod: str, *, container: str, tail_lines: int, seconds: float
    ) -> Iterator[bytes]:
        """See `Gateway.read_log`."""
        ends = time.monotonic() + seconds
        query = _given(container=container, tailLines=tail_lines)
        path = _path(ObjectRef("Pod", namespace, pod)) + "/log"
        response = self._call("GET", path, query, read=seconds / 2)
        try:
            for chunk in response.stream(_CHUNK):
                yield chunk
                if time.monotonic() > ends:
                    raise Unreachable(f"It took longer than {seconds:.0f} s.")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(answers.silence(error)) from error
        finally:
            # What is not read to its end leaves a connection that nobody can use again.
            response.close()
            response.release_conn()

    def stream_log(
        self, namespace: str, pod: str, *, container: str = "", tail_lines: int = 0
    ) -> AsyncGenerator[Sequence[str], None]:
        """See `Gateway.stream_log`."""
        query = [("follow", "true"), *_given(container=container, tailLines=tail_lines or "")]
        path = _path(ObjectRef("Pod", namespace, pod)) + "/log"
        return following.lines(f"{self.address}{path}?{urlencode(query)}", self._door())

    def port_forward(self, namespace: str, pod: str, port: int) -> forwarding.Way:
        """See `Gateway.port_forward`."""
        path = _path(ObjectRef("Pod", namespace, pod)) + "/portforward"
        return forwarding.Way(f"{self.address}{path}?ports={port}", self._door())

    def run_command(
        self, namespace: str, pod: str, command: Sequence[str], *, is_terminal: bool, container: str = ""
    ) -> forwarding.Way:
        """See `PodAccess.run_command`."""
        path = _path(ObjectRef("Pod", namespace, pod))
        query = executing.query(command, is_terminal=is_terminal, container=container)
        return forwarding.Way(f"{self.address}{path}/exec?{query}", self._door())

    def create_token(self, namespace: str, account: str, *, seconds: int) -> tuple[str, datetime]:
        """See `Gateway.create_token`."""
        path = _path(ObjectRef("ServiceAccount", namespace, account)) + "/token"
        wish = TOKEN_REQUEST | {"spec": {"expirationSeconds": seconds}}
        status = self._json("POST", path, body=wish, kind="application/json")["status"]
        return str(status["token"]), datetime.fromisoformat(status["expirationTimestamp"])

    def may(self, verb: str, resource: str, *, group: str, namespace: str) -> bool:
        """See `Probe.may`."""
        name, _, subresource = resource.partition("/")
        asked = _given(verb=verb, group=group, resource=name, subresource=subresource, namespace=namespace)
        wish = ACCESS_REVIEW | {"spec": {"resourceAttributes": dict(asked)}}
        path = f"/apis/{ACCESS_REVIEW['apiVersion']}/selfsubjectaccessreviews"
        return bool(self._json("POST", path, body=wish, kind="application/json")["status"]["allowed"])

    def try_create(self, manifest: Manifest) -> Body:
        """See `Probe.try_create`."""
        ref = ref_of(manifest)
        path, query = KINDS[ref.kind].path(ref.namespace), [("dryRun", "All"), ("fieldValidation", "Strict")]
        return self._json("POST", path, query, body=manifest, kind="application/json")

    def endpoint(self) -> Endpoint:
        """See `Gateway.endpoint`."""
        return endpoint_of(self._api.configuration)

    def server_version(self) -> str:
        """See `Gateway.server_version`."""
        return str(self._json("GET", "/version", read=5.0)["gitVersion"])

    def api_resources(self, api_version: str) -> frozenset[str]:
        """See `Gateway.api_resources`."""
        root = "/apis" if "/" in api_version else "/api"
        try:
            found = self._json("GET", f"{root}/{api_version}")
        except Rejected as error:
            if error.is_absent:
                return frozenset()
            raise
        return frozenset(entry["name"] for entry in found.get("resources") or [])

    @property
    def address(self) -> str:
        """Where the API server is."""
        return str(self._api.configuration.host)

    def _json(
        self, method: str, path: str, query: Query = (), *, call: Call | None = None, **how: Any
    ) -> Body:
        with calls.under_way(call) as span:
            response = self._call(method, path, query, **how)
            if span:
                span.set({calls.STATUS: response.status})
            raw = _read(response)
        try:
            answer: Body = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise Unreachable("The cluster's answer is not JSON.") from error
        return answer

    def _call(
        self,
        method: str,
        path: str,
        query: Query = (),
        *,
        body: bytes | Mapping[str, Any] | None = None,
        kind: str = "",
        read: float = _READ,
    ) -> urllib3.HTTPResponse:
        self._respect_throttling(method)
        url = f"{self.address}{path}?{urlencode(query)}"
        sent = orjson.dumps(body) if isinstance(body, Mapping) else body
        how: Any = {"timeout": urllib3.Timeout(connect=_CONNECT, read=read), "preload_content": False}
        try:
            # Bypasses the library's own request code, which costs as much again as the request.
            response: Any = self._pool.urlopen(method, url, body=sent, headers=self._headers(kind), **how)
        except (urllib3.exceptions.HTTPError, ConfigException, OSError) as error:
            raise Unreachable(answers.silence(error, own_of(self))) from error
        if response.status >= 400:
            own = own_of(self) if response.status == HTTPStatus.UNAUTHORIZED else b""
            if own:  # its file may hold another by now, and a connection keeps the one that it began with
                self._pool.clear()
            refusal = answers.refusal(response.status, response.headers, _read(response), own)
            if isinstance(refusal, Throttled) and method != "GET":
                self._quiet_until = time.monotonic() + refusal.retry_after
            raise refusal
        return cast("urllib3.HTTPResponse", response)

    def _headers(self, kind: str) -> dict[str, str]:
        """The credential is asked for each time: an operator's own kubeconfig may name what renews it."""
        headers = {"Accept": "application/json", "User-Agent": MANAGER}
        if token := self._api.configuration.get_api_key_with_prefix("BearerToken", alias="authorization"):
            headers["Authorization"] = token
        return headers | {"Content-Type": kind} if kind else headers

    def _door(self) -> following.Door:
        known = self._api.configuration
        proxy = known.proxy if isinstance(self._pool, urllib3.ProxyManager) else ""
        try:
            trust, name = following.trust_of(known), known.tls_server_name or ""
            return following.Door(self._headers(""), trust, name, proxy, self._is_guarded)
        except (ConfigException, OSError) as error:
            raise Unreachable(answers.silence(error)) from error

    def _respect_throttling(self, method: str) -> None:
        """A server that asked for patience gets no write before its time is up, whoever wants to write."""
        left = self._quiet_until - time.monotonic()
        if method != "GET" and left > 0:
            words = f"The cluster asked us to slow down; we ask again in {left:.0f} s."
            raise Throttled(words, retry_after=left)


def for_kubeconfig(path: str) -> KubernetesGateway:
    """The gateway for a kubeconfig file or a mounted account; made again when it has changed. `Unreachable`
    if it cannot be used.
    """
    try:
        changed = Path(path).stat().st_mtime_ns
    except OSError as error:
        raise Unreachable(f"The kubeconfig {path} cannot be read: {error.strerror}.") from error
    with _lock:
        known = _gateways.get(path)
        if known is None or known[0] != changed:
            known = _gateways[path] = (changed, _open(path))
        return known[1]


def with_token(path: str, token: str, *, text: str = "") -> KubernetesGateway:
    """A gateway to the same server as this kubeconfig's, as whoever the token is; never kept."""
    configuration = _configuration(path, text)
    configuration.api_key = {"BearerToken": f"Bearer {token}"}
    # Else the library puts the kubeconfig's own token back before each call.
    configuration.refresh_api_key_hook = None
    configuration.cert_file = configuration.key_file = None
    configuration.username = configuration.password = None
    return _opened(configuration, inline=bool(text))


def for_text(text: str) -> KubernetesGateway:
    """The gateway for a kubeconfig of inline data, one per content."""
    key = hashlib.sha256(text.encode()).hexdigest()
    with _lock:
        known = _gateways.get(key)
        if known is None:
            known = _gateways[key] = (0, _opened(_configuration("", text), inline=True))
        return known[1]


_lock = threading.Lock()
_gateways: dict[str, tuple[int, KubernetesGateway]] = {}


def _open(path: str) -> KubernetesGateway:
    return _opened(_configuration(path), inline=False)


def _configuration(path: str, text: str = "") -> Configuration:
    """From the operator's file or account, or the inline data of a kubeconfig that came over the network."""
    configuration, what = Configuration(), "registered kubeconfig" if text else f"kubeconfig {path}"
    if not text and mounted.is_account(path):
        mounted.settle(configuration, path)
        return configuration
    try:
        document = kubeconfig.read(text or Path(path).read_text())
        allowed = settings.CONFIG.development_clusters
        wrong = kubeconfig.problems(document, inline=bool(text), allowed=allowed)
        if wrong:
            raise Unreachable(f"The {what} is not accepted: {'; '.join(wrong)}.")
        settled = {"client_configuration": configuration, "persist_config": False}
        if text:
            load_kube_config_from_dict(document, **settled)  # type: ignore[no-untyped-call]
            # What the library made of it decides: without a server it would take this machine.
            if problem := server_problem(configuration.host, allowed):
                raise Unreachable(f"The {what} is not accepted: its server {problem}.")
        else:
            load_kube_config(config_file=path, **settled)  # type: ignore[no-untyped-call]
            mounted.follow_token(configuration, document, Path(path).parent)
    # Of a document that is not shaped as it expects, the library stumbles over the types.
    except (ConfigException, OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise Unreachable(f"The {what} cannot be used: {error}.") from error
    return configuration


def _opened(configuration: Configuration, *, inline: bool) -> KubernetesGateway:
    configuration.connection_pool_maxsize = _CONNECTIONS
    # One retry on a connection that the server had closed meanwhile; statuses are ours to judge.
    configuration.retries = OnceMore(
        total=1, redirect=0, status=0,
        respect_retry_after_header=False, raise_on_status=False, allowed_methods=None,
    )  # fmt: skip
    return KubernetesGateway(ApiClient(configuration), is_guarded=inline)


def _path(ref: ObjectRef) -> str:
    info: KindInfo = KINDS[ref.kind]
    return info.path(ref.namespace, ref.name)


def _given(**parameters: object) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in parameters.items() if value != ""]


def _read(response: urllib3.HTTPResponse) -> bytes:
    try:
        return response.data
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unreachable(answers.silence(error)) from error
