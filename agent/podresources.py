"""The kubelet's pod-resources socket: one gRPC question, `List`, read without generated code."""

from pathlib import Path

import grpc

from agent.holders import Holdings, holdings
from agent.wire import Malformed

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
_LIST = "/v1.PodResourcesLister/List"
_SECONDS = 2.0
# The kubelet's socket is new after each of its restarts: look again soon.
_OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5000),
)


class PodsUnknownError(Exception):
    """Who holds what cannot be told now, in words that can stand after "because"."""


class Kubelet:
    """Asks the kubelet who holds which device."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel: grpc.Channel | None = None

    def holdings(self) -> Holdings:
        """Who holds what now; PodsUnknownError when the kubelet does not answer within two seconds."""
        if not self._socket.exists():
            raise PodsUnknownError(f"there is no socket of the kubelet at {self._socket}")
        if self._channel is None:
            self._channel = grpc.insecure_channel(f"unix:{self._socket}", options=_OPTIONS)
        question = self._channel.unary_unary(_LIST)
        try:
            return holdings(question(b"", timeout=_SECONDS))
        except grpc.RpcError as error:
            code = error.code().name if isinstance(error, grpc.Call) else str(error)
            raise PodsUnknownError(f"the kubelet's pod-resources socket answers {code}") from error
        except Malformed as error:
            raise PodsUnknownError(f"the kubelet's answer is no pod-resources list: {error}") from error

    def close(self) -> None:
        """Let the connection go."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
