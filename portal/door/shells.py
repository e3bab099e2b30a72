"""SSH into workloads: an SSH server whose connections come one by one, each in a WebSocket of its own.

So it needs no port but the door's, and goes through whatever stands before that. A person is known by a key
(`apps.accounts`), and by nothing else; what they ask for runs as their own account in the cluster.
"""

import asyncio
import logging
import socket
from collections import Counter
from contextlib import suppress
from typing import Any
from uuid import UUID

import asyncssh
from asyncssh.constants import EXTENDED_DATA_STDERR
from asyncssh.stream import SSHReader, SSHWriter
from django.db import Error as DatabaseError
from django.utils import timezone
from starlette.types import Receive, Scope, Send

from apps.accounts.models import SshKey
from apps.accounts.selectors import ssh_key_of
from apps.cluster.errors import Rejected
from apps.cluster.gateway import executing, forwarding
from apps.errors import Conflict, DomainError
from apps.workloads.opening.rules import shell_commands
from apps.workloads.opening.rules.hosts import ShellName, shell_name
from apps.workloads.opening.selectors import shell_setup
from apps.workloads.opening.services import shells
from portal.door import headers
from portal.door.asking import in_thread
from portal.door.visits import Visit

log = logging.getLogger(__name__)
logging.getLogger("asyncssh").setLevel(logging.WARNING)
CHUNK = 64 * 1024
LOGIN_SECONDS = 20.0
ALIVE_SECONDS = 30.0
MOST_STRANGERS, MOST_PER_PERSON = 64, 32
"""Connections at once: of those who have not signed in yet, and of one person. VS Code takes two or three."""
END_OF_INPUT = b"\x04"
"""Ctrl-D."""
LOCAL = ("localhost", "127.0.0.1", "::1")
NOT_HERE, TOO_MANY = 4404, 4429
"""WebSocket close codes."""
REFUSED = 254
"""The exit code of what was not even begun; 255 is what `ssh` says of a connection that it lost."""


class Shells:
    """Every SSH connection of this process."""

    def __init__(self) -> None:
        self.host_keys = [asyncssh.import_private_key(key) for key in shell_setup.host_keys()]
        self.strangers = 0
        self.inside: Counter[UUID] = Counter()

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One WebSocket to the host for SSH, until one side has ended it."""
        await receive()
        name = shell_name(scope["path"])
        # Programs send none: no page has any business here.
        is_page = headers.value(scope["headers"], b"origin") is not None
        if name is None or is_page or self.strangers >= MOST_STRANGERS:
            code = TOO_MANY if self.strangers >= MOST_STRANGERS else NOT_HERE
            await send({"type": "websocket.close", "code": code})
            return
        offered = scope.get("subprotocols") or [None]
        await send({"type": "websocket.accept", "subprotocol": offered[0]})
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        connection = _Connection(self, name)
        tasks = {
            asyncio.ensure_future(connection.held(theirs)),
            asyncio.ensure_future(_in(receive, ours)),
            asyncio.ensure_future(_out(ours, send)),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # What the server said last is still on its way: to nobody, where the client has gone.
            await asyncio.wait(tasks, timeout=1.0)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            ours.close()
        with suppress(RuntimeError, OSError):
            await send({"type": "websocket.close", "code": 1000})


async def _in(receive: Receive, to: socket.socket) -> None:
    with suppress(OSError):
        while (message := await receive())["type"] == "websocket.receive":
            await asyncio.get_running_loop().sock_sendall(to, message.get("bytes") or b"")
        to.shutdown(socket.SHUT_WR)


async def _out(of: socket.socket, send: Send) -> None:
    with suppress(OSError, RuntimeError):
        while data := await asyncio.get_running_loop().sock_recv(of, CHUNK):
            await send({"type": "websocket.send", "bytes": data})


class _Connection(asyncssh.SSHServer):
    """One SSH connection: nobody's until a key has signed, then its person's, in one workload."""

    def __init__(self, house: Shells, name: ShellName) -> None:
        self._house, self._name = house, name
        self._key: SshKey | None = None
        self._fingerprint = ""
        self._ssh: asyncssh.SSHServerConnection | None = None
        self._entering: asyncio.Task[Visit] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def held(self, sock: socket.socket) -> None:
        """Until it ends; whoever does not sign in in time is left."""
        self._house.strangers += 1
        try:
            self._ssh = await asyncssh.run_server(
                sock,
                server_factory=lambda: self,
                server_host_keys=self._house.host_keys,
                send_server_host_keys=True,
                encoding=None,
                login_timeout=LOGIN_SECONDS,
                keepalive_interval=ALIVE_SECONDS,
                compression_algs=None,
                line_editor=False,
                agent_forwarding=False,
                x11_forwarding=False,
                server_version="Allotment",
            )
        except (asyncssh.Error, OSError, TimeoutError) as error:
            log.info("nobody signed in by SSH: %s", error)
            return
        finally:
            self._house.strangers -= 1
            if self._ssh is None:
                sock.close()
        # asyncssh sends them by itself only where nobody waits for the sign-in, as here.
        self._ssh.send_server_host_keys()
        person = self._key.user_id if self._key else UUID(int=0)
        self._house.inside[person] += 1
        try:
            await self._ssh.wait_closed()
        finally:
            self._house.inside[person] -= 1
            for task in (self._entering, self._watching):
                if task is not None:
                    task.cancel()
            self._ssh.abort()

    def begin_auth(self, username: str) -> bool:  # noqa: ARG002 - the key says who it is
        """See asyncssh: nobody comes in without."""
        return True

    def public_key_auth_supported(self) -> bool:
        """See asyncssh: the only way."""
        return True

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """See asyncssh: a key that some person has. RULE: the first one that is known is the only one of its
        connection, so that whoever signs is whom that key belongs to.
        """
        fingerprint = key.get_fingerprint()
        if self._key is not None:
            return fingerprint == self._fingerprint
        with suppress(DatabaseError):
            self._key = await in_thread(ssh_key_of, fingerprint)
        self._fingerprint = fingerprint
        return self._key is not None

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        """See asyncssh: a shell, a command, or the files."""
        return _Session(self._run, None, 0, allow_scp=False)

    def connection_requested(self, dest_host: str, dest_port: int, *_: object) -> Any:
        """See asyncssh: a port of the workload itself, as `ssh -L` and VS Code ask for. Nothing beyond it."""
        if dest_host not in LOCAL:
            words = "Only the workload's own ports are reached: name localhost."
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, words)

        async def forward(reader: SSHReader[bytes], writer: SSHWriter[bytes]) -> None:
            try:
                account = await (await self._visit()).account()
            except (DomainError, Rejected, DatabaseError) as error:
                log.info("no way by SSH to %s: %s", self._name.path, error)
                writer.close()
                return
            way = account.pods.port_forward(account.namespace, account.pod, dest_port)
            await forwarding.carry(way, reader, writer)

        return forward

    async def _run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        try:
            visit = await self._visit()
            account = await visit.account()
            visit.note_use()
            way = account.pods.run_command(
                account.namespace,
                account.pod,
                _asked(process),
                is_terminal=process.term_type is not None,
            )
            async with executing.running(way) as command:
                await _converse(process, command, visit)
            _end(process, command.exit.code, command.exit.words)
        except DomainError as refused:
            _end(process, REFUSED, f"{refused.detail} {refused.hint or ''}")
        except Rejected as refused:
            _end(process, REFUSED, f"The cluster refuses: {refused.message}")
        except DatabaseError:
            _end(process, REFUSED, "Nobody can say at present who may come in. Try again.")

    async def _visit(self) -> Visit:
        """The person's in the workload's pod. The first to ask enters; all raise as that does."""
        if self._entering is None:
            self._entering = asyncio.ensure_future(self._enter())
        return await asyncio.shield(self._entering)

    async def _enter(self) -> Visit:
        if self._key is None:
            raise RuntimeError("nobody signed in")
        if self._house.inside[self._key.user_id] > MOST_PER_PERSON:
            words = f"You have {MOST_PER_PERSON} SSH connections."
            raise Conflict(words, hint="Close one first.")
        inside = await in_thread(shells.enter, key=self._key, name=self._name, now=timezone.now())
        visit = await Visit.begun(inside, self._name.pod)
        self._watching = asyncio.ensure_future(self._watch(visit))
        return visit

    async def _watch(self, visit: Visit) -> None:
        await visit.over()
        if self._ssh is not None:
            words = f"Your access to {self._name.workload} has ended."
            self._ssh.disconnect(asyncssh.DISC_BY_APPLICATION, words)


class _Session(asyncssh.SSHServerProcess[bytes]):
    """A process of which the files are the workload's: asyncssh would serve those of the door's own disk."""

    def subsystem_requested(self, subsystem: str) -> bool:
        """See asyncssh."""
        return subsystem == shell_commands.SFTP

    def session_started(self) -> None:
        """See asyncssh: every kind of request alike."""
        chan, conn = self._chan, self._conn
        if chan is None or conn is None:
            return
        streams = SSHReader(self, chan), SSHWriter(self, chan), SSHWriter(self, chan, EXTENDED_DATA_STDERR)
        started = self._start_process(*streams)
        if started is not None:
            conn.create_task(started)


def _asked(process: asyncssh.SSHServerProcess[bytes]) -> shell_commands.Command:
    if process.subsystem:
        return shell_commands.sftp()
    if process.command is None:
        return shell_commands.shell(process.term_type)
    return shell_commands.command(process.command, process.term_type)


async def _converse(
    process: asyncssh.SSHServerProcess[bytes], command: executing.Command, visit: Visit
) -> None:
    """Until the command has ended or its client has gone."""
    tasks = {
        asyncio.ensure_future(_output(process, command)),
        asyncio.ensure_future(process.channel.wait_closed()),
    }
    reading = asyncio.ensure_future(_input(process, command, visit))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*tasks, reading):
            task.cancel()
        await asyncio.wait({*tasks, reading})


async def _input(process: asyncssh.SSHServerProcess[bytes], command: executing.Command, visit: Visit) -> None:
    if process.term_type is not None:
        columns, rows, *_ = process.term_size
        await command.resize(columns, rows)
    while True:
        try:
            data = await process.stdin.read(CHUNK)
        except asyncssh.TerminalSizeChanged as size:
            await command.resize(size.width, size.height)
            continue
        except (asyncssh.SignalReceived, asyncssh.BreakReceived):
            # Kubernetes carries no signals. A terminal's own go as what is typed.
            continue
        if not data:
            await _end_input(process, command)
            return
        if process.term_type is not None:
            visit.note_use()
        await command.write(data)


async def _end_input(process: asyncssh.SSHServerProcess[bytes], command: executing.Command) -> None:
    """RULE: a terminal is told by the key for it. Its input closed, containerd drops what it still writes."""
    if process.term_type is None:
        await command.end_input()
    else:
        await command.write(END_OF_INPUT)


async def _output(process: asyncssh.SSHServerProcess[bytes], command: executing.Command) -> None:
    with suppress(BrokenPipeError, ConnectionError):
        async for channel, content in command:
            stream = process.stderr if channel == executing.ERRORS else process.stdout
            stream.write(content)
            await stream.drain()


def _end(process: asyncssh.SSHServerProcess[bytes], code: int, words: str = "") -> None:
    with suppress(OSError):
        if words.strip():
            process.stderr.write(f"allotment: {words.strip()}\r\n".encode())
        process.exit(code)
