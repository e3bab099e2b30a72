"""The product's chart on a cluster with real nodes, by the commands of docs/installing.md.

Beside it, on this machine, stands what an organisation has: PostgreSQL, Redis, and a proxy that ends TLS.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests import services
from tests.chart import guide
from tests.chart.helm import NAMESPACE, RELEASE, ROOT, Document, Helm
from tests.controlplane import pki, process
from tests.controlplane.plane import PlaneError
from tests.door.gateway import nginx
from tests.node.cluster import NodeCluster
from tests.node.images import recipes
from tests.ports import free_port

POSTGRES, REDIS, COLLECTOR = 5432, 6379, 4318
"""Where pods reach them: the ports that the chart's network policies let them go to."""
API_SERVER = "https://10.96.0.1"
"""Its Service's address, which its certificate names."""
PASSING = {"events", "events.events.k8s.io"}
"""What every namespace has for a while."""
CONF = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/client;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    ssl_certificate {folder}/tls.crt;
    ssl_certificate_key {folder}/tls.key;
    client_max_body_size 0;
    proxy_request_buffering off;
    proxy_buffering off;
    proxy_read_timeout 1h;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade;
    upstream portal {{ {portal} }}
    upstream door {{ {door} }}
    server {{
        listen 127.0.0.1:{port} ssl;
        server_name allotment.localhost;
        location / {{ proxy_pass http://portal; }}
    }}
    server {{
        listen 127.0.0.1:{port} ssl;
        server_name *.apps.localhost;
        location / {{ proxy_pass http://door; }}
    }}
}}
"""
"""As an ingress controller: it goes to the pods of a Service, not to its address."""


@dataclass(frozen=True)
class Installer:
    """Who follows the guide: with Helm and kubectl as the cluster's administrator, in a folder of its own."""

    cluster: NodeCluster
    helm: Helm
    folder: Path
    port: int
    """Of the proxy, at this machine's loopback."""
    image: str
    values: str = ""
    """What is added to those of the guide."""

    @property
    def url(self) -> str:
        """Where people reach the portal."""
        return f"https://allotment.localhost:{self.port}"

    def follow(self, heading: str, language: str = "sh") -> str:
        """What the guide's commands under a heading print, with the addresses of this place."""
        commands = guide.replaced(guide.blocks(language)[heading], self._ours(heading))
        try:
            return guide.run(commands, self.helm, self.cluster.plane.kubectl_path, self.folder)
        except AssertionError as error:
            error.add_note(self.told())
            raise

    def pods(self) -> list[Document]:
        """Of the release."""
        return self._items("pods", "-l", f"app.kubernetes.io/instance={RELEASE}")

    def objects(self) -> set[str]:
        """Everything in the namespace of the release but what passes by itself, as `kind/name`."""
        listed = self.cluster.plane.kubectl("api-resources", "--namespaced", "--verbs=list,delete", "-oname")
        kinds = ",".join(sorted(set(listed.split()) - PASSING))
        return set(self.cluster.plane.kubectl("get", kinds, f"-n{NAMESPACE}", "-oname").split())

    def logs(self) -> list[str]:
        """The lines that the release's containers have written so far."""
        names = [pod["metadata"]["name"] for pod in self.pods()]
        read = (self.cluster.plane.kubectl("logs", f"-n{NAMESPACE}", name) for name in names)
        return [line for text in read for line in text.splitlines()]

    def told(self) -> str:
        """What a failed step is looked into by: pods, warnings, and the logs of containers that started."""
        plane, where = self.cluster.plane, f"-n{NAMESPACE}"
        parts = [
            plane.kubectl("get", "pods", where, "-owide"),
            plane.kubectl("get", "events", where, "--field-selector=type=Warning"),
        ]
        with suppress(PlaneError):
            parts += self.logs()
        return "\n".join(parts)[-12_000:]

    @contextmanager
    def proxied(self) -> Iterator[None]:
        """Browsers of this machine reach portal and door of the release, by TLS."""
        folder = self.folder / "proxy"
        folder.mkdir()
        certificate, key = pki.server(self.cluster.plane.layout.pki, "allotment.localhost", "127.0.0.1")
        (folder / "tls.crt").write_bytes(certificate)
        pki.write_private(folder / "tls.key", key)
        behind = {
            name: " ".join(f"server {address};" for address in self._behind(f"{RELEASE}-{part}", port))
            for name, part, port in (("portal", "web", 8000), ("door", "door", 8001))
        }
        with nginx(folder, CONF.format(folder=folder, port=self.port, **behind), self.port):
            yield

    def _behind(self, service: str, port: int) -> Sequence[str]:
        slices = self._items("endpointslices", "-l", f"kubernetes.io/service-name={service}")
        ready = [
            f"{address}:{port}"
            for each in slices
            for endpoint in each["endpoints"]
            for address in endpoint["addresses"]
            if endpoint["conditions"]["ready"]
        ]
        assert ready, f"no pod is behind the Service {service}"
        return ready

    def _items(self, kind: str, *options: str) -> list[Document]:
        found = self.cluster.plane.kubectl("get", kind, f"-n{NAMESPACE}", "-ojson", *options)
        items: list[Document] = json.loads(found)["items"]
        return items

    def _ours(self, heading: str) -> dict[str, str]:
        """The guide's examples under a heading, and what stands for them here."""
        machine = self.cluster.network.machine
        repository, _, tag = recipes.reference(self.image).rpartition(":")
        image = f"{{repository: {repository}, tag: {tag}}}"
        return {
            "3. What is secret": {
                "allotment:PASSWORD@postgres.example.org": f"allotment@{machine}:{POSTGRES}",
                "rediss://:PASSWORD@redis.example.org:6379": f"redis://{machine}:{REDIS}",
            },
            "4. Values": {
                "{repository: registry.example.org/allotment}": f"{image}{self.values}",
                "https://allotment.example.org": self.url,
                "https://apps.example.net": f"https://apps.localhost:{self.port}",
                "10.42.0.0/16": f"{machine}/32",
                # There is no DNS here for names of Services: the door goes by the API server's forward.
                "  door_cluster: north\n": "",
                "https://api.north.example.org:6443": API_SERVER,
            },
        }.get(heading, {})


@contextmanager
def installer(cluster: NodeCluster, folder: Path, image: str, traces: int = 0) -> Iterator[Installer]:
    """A checkout, and the servers that the product needs and does not bring; `traces` is the port of this
    machine at which a collector takes all of them.
    """
    checkout = folder / "checkout"
    for each in (checkout, folder / "helm"):
        each.mkdir()
    (checkout / "k8s").symlink_to(ROOT / "k8s")
    with ExitStack() as stack:
        # PostgreSQL's own user may not look into the folders of pytest.
        own = stack.enter_context(tempfile.TemporaryDirectory(prefix="allotment-installed-"))
        home = Path(own, "services")
        home.mkdir()
        stack.callback(services.down, home)
        ports = {POSTGRES: urlsplit(services.postgres(home)).port, REDIS: urlsplit(services.redis(home)).port}
        for port, there in (ports | ({COLLECTOR: traces} if traces else {})).items():
            assert there
            stack.callback(process.stop, cluster.forward(port, there), 2)
        endpoint = f"http://{cluster.network.machine}:{COLLECTOR}"
        values = f'\ntracing: {{endpoint: "{endpoint}", samplerArg: "1"}}' if traces else ""
        helm = Helm(folder / "helm", cluster.plane.admin_kubeconfig)
        yield Installer(cluster, helm, checkout, free_port(), image, values)
