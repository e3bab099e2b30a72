"""A worker whose Redis went: what Celery's consumer closes then."""

from contextlib import suppress
from pathlib import Path

from portal.celery import app
from tests.web.broker import serving

HERE = "worker@here"


def test_it_lets_go_of_a_connection_that_broke_while_a_task_was_out(tmp_path: Path) -> None:
    """It waits for the next task on one channel and for commands on another, and has not yet acknowledged the
    task it works on: closing all of them without Redis must end no worker.
    """
    with serving(tmp_path) as (port, server):
        connection = app.connection_for_read(f"redis://127.0.0.1:{port}/0")
        received: list[object] = []
        consumer = app.WorkController(hostname=HERE, pool_cls="solo").consumer
        consumer.connection = connection
        consumer.task_consumer = app.amqp.TaskConsumer(connection, on_message=received.append)
        consumer.task_consumer.consume()
        commands = app.control.mailbox(connection).Node(HERE, channel=connection.channel())
        commands.listen()
        with connection.Producer() as producer:
            producer.publish({}, routing_key=app.conf.task_default_queue, retry=False)
        while not received:
            connection.drain_events(timeout=5)
        with suppress(TimeoutError):
            connection.drain_events(timeout=0.1)
        server.kill()
        server.wait(10)
        consumer.on_connection_error_after_connected(ConnectionResetError(104, "Connection reset by peer"))
        assert consumer.connection is None
