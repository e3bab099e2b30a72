"""How the door's process listens."""

import socket

import pytest

from portal.door.__main__ import listening


def test_an_answer_does_not_wait_for_the_word_that_its_head_has_come() -> None:
    with listening("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_taken_is_said_in_words() -> None:
    with listening("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            SystemExit, match=f"cannot listen at 127.0.0.1, port {port}: Address already in use"
        ):
            listening("127.0.0.1", port)
