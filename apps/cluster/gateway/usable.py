"""Whether a kubeconfig leads anywhere: its context, server, certificates and key, as the client uses them.

Pure but for the files that an operator's kubeconfig names. What is wrong here is told at registration; else
the watcher would stumble over it, and the cluster merely be silent.
"""

import base64
import binascii
import ssl
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from apps.cluster.gateway.addresses import form_problem

AUTHORITY, CERTIFICATE, KEY = "certificate-authority", "client-certificate", "client-key"
CURRENT = "/current-context"


def problems(document: Mapping[str, Any], folder: Path | None = None) -> list[str]:
    """What keeps this kubeconfig from being used, each with a JSON pointer, as of `kubeconfig.problems`.

    RULE: only what its current context names counts. A file counts where it can be read: `folder` is where a
    relative one begins. Source: k8s.io/client-go/tools/clientcmd/api/v1 Config.
    """
    name = document.get("current-context")
    if not isinstance(name, str) or not name:
        return [f"{CURRENT}: is missing; name the context to use (kubectl config use-context)"]
    index, context = _entry(document, "contexts", name)
    if context is None:
        return [f"{CURRENT}: names {_unknown(name, document, 'contexts')}"]
    found: list[str] = []
    for part, check in (("cluster", _cluster), ("user", _user)):
        wanted = context.get(part)
        at, entry = _entry(document, f"{part}s", wanted)
        if entry is None:
            words = f"names {_unknown(wanted, document, f'{part}s')}" if wanted else "is missing"
            found.append(f"/contexts/{index}/context/{part}: {words}")
        else:
            found += [f"/{part}s/{at}/{part}/{words}" for words in check(entry, folder)]
    return found


def authority_problem(pem: bytes) -> str:
    """Why no connection can be judged by these certificates of an authority; empty where it can."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError):
        return "holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"
    return ""


def _cluster(entry: Mapping[str, Any], folder: Path | None) -> Iterator[str]:
    if problem := form_problem(entry.get("server")):
        yield f"server: {problem}"
    name, pem, problem = _content(entry, AUTHORITY, folder)
    if problem := problem or (authority_problem(pem) if pem is not None else ""):
        yield f"{name}: {problem}"


def _user(entry: Mapping[str, Any], folder: Path | None) -> Iterator[str]:
    parts = {part: _content(entry, part, folder) for part in (CERTIFICATE, KEY)}
    read: dict[str, Any] = {}
    for part, load in ((CERTIFICATE, _certificate), (KEY, _private_key)):
        name, pem, problem = parts[part]
        if not problem and pem is not None:
            read[part], problem = load(pem)
        if problem:
            yield f"{name}: {problem}"
    given = {part for part in parts if any(entry.get(name) for name in (part, f"{part}-data"))}
    for part in {CERTIFICATE, KEY} - given if given else ():
        yield f"{part}-data: is missing: a certificate and its key are used together"
    if all(read.get(part) for part in parts) and read[CERTIFICATE].public_key() != read[KEY].public_key():
        yield f"{parts[KEY][0]}: is not the key of {parts[CERTIFICATE][0]}"


def _content(entry: Mapping[str, Any], part: str, folder: Path | None) -> tuple[str, bytes | None, str]:
    """The name of the field that counts, what it holds (None: not given, or not to be read), what is wrong.

    RULE: data counts for more than a file, as in kubectl.
    """
    if text := entry.get(f"{part}-data"):
        try:
            return f"{part}-data", base64.b64decode("".join(str(text).split()), validate=True), ""
        except (binascii.Error, ValueError):
            return f"{part}-data", None, "is not base64"
    if folder is not None and (file := entry.get(part)):
        try:
            return part, (folder / str(file)).read_bytes(), ""
        except OSError:
            return part, None, ""  # it may be mounted where the workers run alone
    return part, None, ""


def _certificate(pem: bytes) -> tuple[Any, str]:
    try:
        return x509.load_pem_x509_certificates(pem)[0], ""
    except ValueError:
        return None, "holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"


def _private_key(pem: bytes) -> tuple[Any, str]:
    try:
        return load_pem_private_key(pem, None), ""
    except TypeError:
        return None, "is locked by a password; give it without one"
    except ValueError:
        return None, "holds no private key in PEM (-----BEGIN PRIVATE KEY-----)"


def _entry(document: Mapping[str, Any], part: str, name: object) -> tuple[int, Mapping[str, Any] | None]:
    for index, row in enumerate(_rows(document, part)):
        if row.get("name") == name and name:
            inner = row.get(part.removesuffix("s"))
            return index, inner if isinstance(inner, Mapping) else {}
    return 0, None


def _unknown(name: object, document: Mapping[str, Any], part: str) -> str:
    known = ", ".join(str(row.get("name"))[:60] for row in list(_rows(document, part))[:5])
    return f"{str(name)[:60]!r}, which is none of {part} ({known or 'there are none'})"


def _rows(document: Mapping[str, Any], part: str) -> Iterable[Mapping[str, Any]]:
    listed = document.get(part)
    return [row for row in listed if isinstance(row, Mapping)] if isinstance(listed, list) else []
