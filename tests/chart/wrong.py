"""Values that the schema refuses, and where it says so."""

from tests.chart.helm import WORKER, Values

WRONG: list[tuple[Values, str]] = [
    ({"settings": {"public_url": ""}}, "/settings/public_url: '' does not match"),
    ({"settings": {"public_url": "http://plain.example.org"}}, "/settings/public_url:"),
    ({"settings": {"currency": "euro"}}, "/settings/currency: 'euro' does not match"),
    ({"settings": {"lease_seconds": 1}}, "/settings/lease_seconds: 1 is less than the minimum of 5"),
    ({"settings": {"publicUrl": "https://a.example.org"}}, "/settings: Additional properties"),
    ({"settings": {"secret_key": "k" * 48}}, "/settings: Additional properties"),
    ({"settings": {"demo": True}}, "/settings: Additional properties"),
    ({"database": {"url": "postgresql://here"}}, "/database: Additional properties"),
    ({"database": {"existingSecret": ""}}, "/database/existingSecret:"),
    ({"beat": {"replicas": -1}}, "/beat/replicas: -1 is less than the minimum of 0"),
    ({"watcher": {"replicas": 101}}, "/watcher/replicas: 101 is greater than the maximum of 100"),
    ({"settings": {"log_format": "yaml"}}, "/settings/log_format: 'yaml' is not one of"),
    ({"settings": {"metrics_token": "m" * 32}}, "/settings: Additional properties"),
    ({"serviceMonitor": {"enabled": True}}, "/metricsToken/existingSecret:"),
    ({"web": {"replicas": 0}}, "/web/replicas: 0 is less than the minimum of 1"),
    ({"workers": {"Large": WORKER}}, "/workers: 'Large'"),
    ({"workers": {"large": WORKER | {"queues": []}}}, "/workers/large/queues:"),
    (
        {"workers": {"large": {"queues": ["a"], "replicas": 1, "concurrency": 1}}},
        "/workers/large: 'resources'",
    ),
    ({"image": {"digest": "sha256:short"}}, "/image/digest: 'sha256:short' does not match"),
    ({"tracing": {"endpoint": "http://name:password@collector:4318"}}, "/tracing/endpoint:"),
    ({"tracing": {"samplerArg": "10%"}}, "/tracing/samplerArg: '10%' does not match"),
    ({"secretEnv": {"PATH": {"existingSecret": "a", "key": "b"}}}, "/secretEnv: 'PATH' does not match"),
    ({"gateway": {"name": "people/https"}}, "/gateway/name: 'people/https' does not match"),
    ({"gateway": {"namespace": "Gateways"}}, "/gateway/namespace: 'Gateways' does not match"),
    ({"gateway": {"sectionName": "https"}}, "/gateway: Additional properties"),
    ({"replicas": 3}, "/: Additional properties"),
]
