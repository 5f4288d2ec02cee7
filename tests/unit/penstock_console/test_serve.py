"""The address that the console listens on."""

import asyncio
import os
import socket

import pytest

from penstock.actions.errors import ActionError
from penstock_console.serve import address_of, listen


def test_a_port_in_use_names_the_process_that_listens_there() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert address_of(first) == f"http://127.0.0.1:{port}/"
        with pytest.raises(ActionError) as refused:
            listen("127.0.0.1", port)
    message = str(refused.value)
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use. Choose another port with --port" in message
    assert not os.path.exists("/proc/net/tcp") or f"process {os.getpid()} listens there" in message


def test_an_address_of_another_machine_is_reported() -> None:
    with pytest.raises(ActionError, match=r"Cannot listen on 192\.0\.2\.1:0: "):
        listen("192.0.2.1", 0)


def test_an_ipv6_address_is_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("needs IPv6")
    try:
        listener = listen("::1", 0)
    except ActionError:
        pytest.skip("needs an IPv6 address")
    with listener:
        assert address_of(listener).startswith("http://[::1]:")


async def test_connections_send_without_delay() -> None:
    without_delay: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        without_delay.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = listen("127.0.0.1", 0)
    async with await asyncio.start_server(connected, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await without_delay
        writer.close()
        await writer.wait_closed()
