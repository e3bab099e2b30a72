"""Malicious input, as data: every value has a reason to exist, named beside its group."""

import base64
import json
from typing import Any

NESTED = "[" * 100_000 + "]" * 100_000
LONG = "a" * 5000

QUANTITIES: list[Any] = [
    "-1", "0", "1e309", "NaN", "Infinity", "1Gi ", " 1Gi", "1e3m", str(2**63), "0.1+0.2", "١", "1_000", "",
    "1gi", "1GiB", "0x10", "1e", "+", "1.", "9" * 400, "1e-400", "\x00", 1, 1.5, True, [], {},
]  # fmt: skip
"""Kubernetes quantities that overflow, round to nothing, or look like other languages' numbers."""

SLUGS = [
    "a" * 64, "a" * 41, "a" * 39 + "-", "-a", "a-", "Upper", "a.b", "..", "a/b", "xn--nxasmq6b", "аdmin",
    "a\u202eb", "🙂", "a\x00b", "1a", "a b", "default", "kube-system", "kube-x", "allotment-x", "a\n",
    "%2e%2e", "a_b",
]  # fmt: skip
"""Names too long, truncated onto a dash, reserved, look-alikes of others, or no RFC 1123 label at all."""

TEXTS = [
    "<svg onload=alert(1)>", "<script>alert(1)</script>", '" hx-get="/sign-out/" x="', "' onmouseover='a",
    "{{ settings.SECRET_KEY }}", "{% load static %}", "${jndi:ldap://x}", "$(VAR)", "=cmd|'/C calc'!A0",
    "\x1b[31mred\x1b[0m", "a\r\nSet-Cookie: x=1", "\u202egnp.exe", "\ufeff", "🙂" * 30, "\ud7ff\ue000",
    "'; DROP TABLE users; --", "../../etc/passwd", "%s%n%x", "\\u0000", "null", "a\x7fb",
]  # fmt: skip
"""Markup, template syntax, escapes for terminals, spreadsheets and headers, SQL, path traversal."""

UNSAFE = ("<svg onload", "<script>alert", '" hx-get="/sign-out/"', "' onmouseover='")
"""What must never stand in a page as it was typed."""

IMAGES = [
    "a:b@sha256:x", "../a", "a b", "a@sha256:" + "0" * 63, "a@sha256:" + "0" * 65, "a" * 300,
    "169.254.169.254/a:1", "http://evil/a", "a:b:c", "A/b", "a//b", "a/../b", "/a", "a\n", "a;b", "$(a)",
    "a@md5:" + "0" * 32, "",
]  # fmt: skip
"""Image references with wrong digests, traversal, the metadata address as a registry."""

SECRET_NAMES = (
    "NVIDIA_VISIBLE_DEVICES", "LD_PRELOAD", "ld_preload", "JUPYTER_TOKEN", "JOB_COMPLETION_INDEX", "", "A=B",
    "A B", "1A", "../up", ".salt", "a/b", "A\x00", "x" * 200, "\u202eA",
)  # fmt: skip
SECRETS: list[Any] = [
    *([{"name": name, "into": into, "value": "x"}] for name in SECRET_NAMES for into in ("env", "file")),
    *([{"name": "A", "value": value}] for value in ("", "x\x00", "x" * 40_000, 1, None, ["x"], "\ud800")),
    *([{"name": "A", "into": into, "value": "x"}] for into in ("", "ENV", "volume", 1, ["env"])),
    [{"name": f"A{number}", "value": "x"} for number in range(21)], [{"name": "A", "value": "x"}] * 2,
    [{"name": "A"}], [{"value": "x"}], [{"name": "A", "value": "x", "path": "/etc/passwd"}], ["A=x"], [[]],
]  # fmt: skip
"""Secrets that steer loader, driver or door, files outside their folder, values that no variable holds."""

ENVIRONMENTS: list[Any] = [
    {"NVIDIA_VISIBLE_DEVICES": "all"}, {"NVIDIA_DRIVER_CAPABILITIES": "all"}, {"NVIDIA_DISABLE_REQUIRE": "1"},
    {"CUDA_MPS_PIPE_DIRECTORY": "/x"}, {"LD_PRELOAD": "/x.so"}, {"LD_LIBRARY_PATH": "/x"},
    {"ld_preload": "/x.so"}, {"A=B": "x"}, {"": "x"}, {"1A": "x"}, {"A B": "x"}, {"A": None}, {"A": 1},
    {"A": ["x"]}, {"A": "x\x00"}, {"A": "x" * 40_000}, {f"A{number}": "x" for number in range(201)}, [],
    "A=B", [["A", "B"]],
]  # fmt: skip
"""Variables that steer driver or loader, or are no variables."""

INERT_ENVIRONMENTS = [{"A": "line\nnext"}, {"A": "$(PATH) $$"}, {"A": "=cmd()"}, {"_a9": ""}, {"A": "'\"\\"}]
"""Values that only look dangerous: kept exactly as they are."""

LABELS: list[Any] = [
    {"allotment.dev/tenant": "other"}, {"app.kubernetes.io/managed-by": "allotment"},
    {"a.allotment.dev/x": "y"}, {"kueue.x-k8s.io/queue-name": "gpu"},
    {"resource.kubernetes.io/admin-access": "true"}, {"pod-security.kubernetes.io/enforce": "privileged"},
    {"nvidia.com/gpu.present": "true"}, {"a": "b c"}, {"a": "x" * 64}, {"a" * 64: "b"}, {"a/b/c": "d"},
    {"/a": "b"}, {"a/": "b"}, {"-a": "b"}, {"a": "-"}, {"": ""}, {"a": None}, {"a": 1.5}, {"a": ["b"]},
    {"a": {"b": "c"}}, {f"k{number}": "v" for number in range(33)},
    {"sandbox.allotment.dev/run-seconds": "1"}, {"é": "x"}, {"a": "é"}, [], "a=b",
]  # fmt: skip
"""Label keys of the product's and the cluster's domains, and what Kubernetes would refuse."""

MOUNTS = [
    "data", "/", "/a/../b", "/etc", "/etc/x", "/dev/fd", "/proc/1", "/sys", "/usr/bin", "/var/run/x", "/a:b",
    "//", "/a\x00", "/" + "a" * 300, "",
]  # fmt: skip
VOLUME_NAMES = ["", "-", "UPPER", "a" * 21, "shm", "a.b", "a/b", "-a"]
VOLUMES: list[Any] = [
    *([{"name": "data", "size": "1Gi", "mount_path": path}] for path in MOUNTS),
    *([{"name": name, "size": "1Gi", "mount_path": "/data"}] for name in VOLUME_NAMES),
    *([{"name": "data", "size": size, "mount_path": "/data"}] for size in QUANTITIES),
    [{"name": "a", "size": "1Gi", "mount_path": "/a"}] * 2,
    [{"name": "a", "size": "1Gi", "mount_path": "/a", "hostPath": "/"}],
    [{"name": f"a{number}", "size": "1Gi", "mount_path": f"/a{number}"} for number in range(9)],
    [{"name": "a"}],
    [{}],
    [None],
    ["x"],
    [[]],
    {},
    "x",
]
"""Volumes over system folders, with bad sizes, twice the same, or with fields that reach the host."""

NUMBERS: list[Any] = [-1, 0, 2**31, 2**63, 10**30, 1.5, 1e308, "1", "١", "", True, None, [], {}, "NaN"]
"""Whole numbers that are none, or beyond what a database keeps."""

TYPES: list[Any] = [True, 0, -1, 1.5, 10**30, "", "x", LONG, [], [[]], {}, {"a": {"b": []}}, [None]]
"""One of each JSON type, for fields of every type."""

TIMES = [
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
    "2026-06-30T23:59:60Z", "2026-13-45T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01",
    "2026-01-01T00:00:00", "2026-03-29T02:30:00+01:00", "now", "1e9", "٢٠٢٦-01-01T00:00:00Z",
    "2026-01-01T00:00:00+99:99",
]  # fmt: skip
"""Times at the ends of the calendar, a leap second, days that are none, no zone."""


MONTHS = ["0000-01", "0001-01", "9999-12", "1969-12", "2026-13", "99999-01", "٢٠٢٦-10"]
"""Months at the ends of the calendar, or none at all."""


def cursor(value: Any) -> str:
    """A cursor as the product would have made it, with a hostile content."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


CURSORS = [
    "x", "====", "é", base64.urlsafe_b64encode(b"[" * 5000).decode(),
    base64.urlsafe_b64encode(b"\xff\x00").decode(), cursor([]), cursor({}), cursor(["-created_at", "x", "y"]),
    cursor(["-created_at", 5, 6]), cursor([None, None, None]),
    cursor(["-created_at", "0001-01-01T00:00:00+14:00", "00000000-0000-4000-8000-000000000000"]),
    cursor(["-created_at", "2026-01-01T00:00:00", "00000000-0000-4000-8000-000000000000"]),
    cursor(["-created_at", "2026-01-01T00:00:00Z", ["a"]]),
    cursor(["-created_at", "2026-01-01T00:00:00Z", 2**200]),
    cursor(["slug", "a\x00", "00000000-0000-4000-8000-000000000000"]), cursor(["slug", {"a": 1}, "x"]),
]  # fmt: skip
"""Cursors that are forged."""

SELECTORS = [
    *SLUGS[:10], *TEXTS[:6], "a in (b),c", "a=b,!d", "true,false", ",", ",,,,", "-1", "0", "201", str(2**63),
    "9" * 400, "1_000", "+1", "created_at;drop", "spec__kubeconfig_path", "-pk", "tenant__slug", LONG, "",
]  # fmt: skip
"""For every query parameter: slugs, selectors, numbers, and names of columns."""


def for_parameter(name: str) -> list[str]:
    """What is tried as the value of a query parameter."""
    times = TIMES if name in ("from", "to", "created_from", "created_to", "after", "since") else []
    months = MONTHS if name == "month" else []
    return [*SELECTORS, *times, *months, *(CURSORS if name == "cursor" else [])]


PATHS = [
    "%00",
    "%2e%2e%2f",
    "%2F",
    "a%00b",
    LONG,
    "%F0%9F%99%82",
    "%E2%80%AE",
    "%ED%A0%80",
    "%FF",
    "*",
    "-",
    "0" * 32,
    "null",
]
"""For every step of an address."""

RAW_BODIES: list[tuple[str, bytes, str]] = [
    ("NaN", b'{"spec":{"count":NaN}}', "application/json"),
    ("Infinity", b'{"spec":{"count":-Infinity}}', "application/json"),
    ("a number beyond floats", b'{"spec":{"count":1e309}}', "application/json"),
    ("5,000 digits", b'{"spec":{"count":' + b"9" * 5000 + b"}}", "application/json"),
    ("a key twice", b'{"tenant":"a","tenant":"b"}', "application/json"),
    ("a key twice below", b'{"spec":{"offer":"a","offer":"b"}}', "application/json"),
    ("2 MiB", b'{"name":"' + b"a" * 2 * 1024**2 + b'"}', "application/json"),
    ("nested without end", NESTED.encode(), "application/json"),
    ("an object nested without end", b'{"a":' * 100_000, "application/json"),
    ("no UTF-8", b'{"name":"\xff\xfe"}', "application/json"),
    ("UTF-16", '{"name":"a"}'.encode("utf-16"), "application/json"),
    ("a byte order mark", b"\xef\xbb\xbf{}", "application/json"),
    ("half a surrogate pair", b'{"name":"\\ud800"}', "application/json"),
    ("NUL in text", b'{"name":"a\\u0000"}', "application/json"),
    ("NUL in a key", b'{"a\\u0000":1}', "application/json"),
    ("a list", b"[]", "application/json"),
    ("a text", b'"x"', "application/json"),
    ("nothing", b"", "application/json"),
    ("two documents", b"{}{}", "application/json"),
    ("a comment", b"{/*x*/}", "application/json"),
    ("a form", b"tenant=a&name=b", "application/x-www-form-urlencoded"),
    ("YAML that makes objects", b"!!python/object/apply:os.system [id]", "application/yaml"),
    (
        "XML with an entity",
        b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        "application/xml",
    ),
    ("no media type", b"{}", ""),
]
"""Bodies that are no single JSON object of at most 1 MiB."""
