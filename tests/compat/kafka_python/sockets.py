"""Closing of the sockets that kafka-python leaves open after its clients are closed."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any
from unittest import mock

from kafka.net.inet import KafkaNetSocket


@contextmanager
def closing_sockets() -> Iterator[list[socket.socket]]:
    """Close at the end all sockets that kafka-python opens meanwhile, and yield them.

    Its close() waits neither for a connection that is being opened nor for a request in a write buffer: it cancels the
    task that would close the socket, which is then left to the garbage collector.
    """
    opened: list[socket.socket] = []

    def remembered(create: Callable[..., socket.socket]) -> Callable[..., socket.socket]:
        def remember(self: Any, *arguments: Any, **named: Any) -> socket.socket:
            opened.append(create(self, *arguments, **named))
            return opened[-1]

        return remember

    with (
        mock.patch.object(KafkaNetSocket, "socket", remembered(KafkaNetSocket.socket)),
        # With TLS, another socket object takes over the descriptor.
        mock.patch.object(SSLContext, "wrap_socket", remembered(SSLContext.wrap_socket)),
    ):
        yield opened
    for sock in opened:
        sock.close()
