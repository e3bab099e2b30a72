"""pods/exec of the sandbox, by the gateway's own client: commands and shells of simulated containers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from apps.cluster.errors import Rejected
from apps.cluster.gateway import client, executing
from apps.workloads.opening.rules import shell_commands
from tests.sandbox.running import Running, start

pytestmark = pytest.mark.programs

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "nb", "namespace": "shells", "labels": {"allotment.dev/managed": "true"}},
    "spec": {"containers": [{"name": "main", "image": "i", "securityContext": {"runAsNonRoot": True}}]},
}
Talk = Callable[[executing.Command], Awaitable[None]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Any:
    process = start(tmp_path_factory.mktemp("shells"), "--fleet", "laptop")
    for path, body in (
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shells"}}),
        ("/api/v1/namespaces/shells/pods", POD),
    ):
        answer = process.call("POST", path, body)
        assert answer.status_code == 201, answer.text
    for _ in range(100):
        status = process.call("GET", "/api/v1/namespaces/shells/pods/nb").json()["status"]
        if status.get("phase") == "Running":
            break
        asyncio.run(asyncio.sleep(0.1))
    yield process
    process.stop()


async def _nothing(command: executing.Command) -> None:
    await command.end_input()


def run(
    running: Running, command: tuple[str, ...], talk: Talk = _nothing, *, tty: bool = False, pod: str = "nb"
) -> tuple[str, str, executing.Exit]:
    """Output, errors and end of a command, with what is said to it meanwhile."""

    async def done() -> tuple[str, str, executing.Exit]:
        way = client.for_kubeconfig(str(running.admin)).run_command("shells", pod, command, is_terminal=tty)
        written = {executing.OUTPUT: b"", executing.ERRORS: b""}
        async with executing.running(way) as process:
            talking = asyncio.ensure_future(talk(process))
            async for channel, content in process:
                written[channel] += content
            await talking
            out, err = (text.decode() for text in written.values())
            return out, err, process.exit

    return asyncio.run(done())


def test_a_command_writes_and_ends_with_its_code(running: Running) -> None:
    assert run(running, shell_commands.command("echo one two", None)) == ("one two\n", "", executing.Exit(0))
    out, err, ended = run(running, shell_commands.command("vim", None))
    assert (out, ended.code) == ("", 127)
    assert "not simulated" in err


def test_a_shell_reads_lines_to_the_end_of_its_input(running: Running) -> None:
    async def talk(command: executing.Command) -> None:
        await command.write(b"hostname\nwho")
        await command.write(b"ami")
        await command.end_input()

    assert run(running, shell_commands.shell(None), talk) == ("nb\nuser\n", "", executing.Exit(0))


def test_a_terminal_echoes_prompts_and_ends_with_the_last_code(running: Running) -> None:
    async def talk(command: executing.Command) -> None:
        await command.resize(100, 30)
        for keys in (b"hostnamX", b"\x7fe\r", b"rubbish\x03", b"exit 3\r"):
            await command.write(keys)

    out, _, ended = run(running, shell_commands.shell("xterm"), talk, tty=True)
    assert "user@nb:~$ " in out
    assert "\r\nnb\r\n" in out
    assert ended == executing.Exit(3)


def test_what_the_cluster_refuses_is_said_in_its_words(running: Running) -> None:
    with pytest.raises(Rejected, match='pods "nobody" not found'):
        run(running, shell_commands.command("true", None), pod="nobody")


def test_the_product_itself_runs_no_command(running: Running) -> None:
    way = client.for_kubeconfig(str(running.kubeconfig)).run_command(
        "shells", "nb", ("true",), is_terminal=False
    )

    async def tried() -> None:
        async with executing.running(way):
            pass

    with pytest.raises(Rejected, match='cannot create resource "pods/exec"'):
        asyncio.run(tried())
