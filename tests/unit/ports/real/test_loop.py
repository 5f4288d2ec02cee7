import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.ports.real.loop import NodeLoop


@pytest.fixture
def loop() -> Iterator[NodeLoop]:
    made = NodeLoop()
    yield made
    made.close()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        yield near, far


def turn(loop: NodeLoop) -> None:
    loop.run_until_complete(asyncio.sleep(0.001))


def test_a_reader_is_called_until_it_is_removed(loop: NodeLoop, ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    readable: list[bytes] = []
    loop.add_reader(near.fileno(), lambda size: readable.append(near.recv(size)), 10)
    far.send(b"one")
    turn(loop)
    assert loop.remove_reader(near.fileno())
    far.send(b"two")
    turn(loop)
    assert readable == [b"one"]
    assert not loop.remove_reader(near.fileno())


def test_one_socket_is_read_and_written_by_different_callbacks(
    loop: NodeLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    near, far = ends
    calls: list[Any] = []

    def writable() -> None:
        calls.append("writable")
        loop.remove_writer(near.fileno())

    loop.add_reader(near.fileno(), lambda: calls.append(near.recv(10)))
    loop.add_writer(near.fileno(), writable)
    turn(loop)
    far.send(b"more")
    turn(loop)
    assert calls == ["writable", b"more"]
    assert not loop.remove_writer(near.fileno())


def test_a_writer_that_the_reader_removes_is_not_called(
    loop: NodeLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    near, far = ends
    calls: list[str] = []

    def hang_up() -> None:
        calls.append("read")
        loop.remove_reader(near.fileno())
        loop.remove_writer(near.fileno())
        near.close()

    loop.add_reader(near.fileno(), hang_up)
    loop.add_writer(near.fileno(), calls.append, "written")
    far.send(b"x")
    turn(loop)
    assert calls == ["read"]


def test_a_failing_callback_is_reported_and_the_others_still_run(
    loop: NodeLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    near, far = ends
    reported: list[Any] = []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    readable: list[bytes] = []

    def fail() -> None:
        near.recv(10)
        raise ValueError("no")

    loop.add_reader(near.fileno(), fail)
    loop.add_reader(far.fileno(), lambda: readable.append(far.recv(10)))
    far.send(b"x")
    near.send(b"y")
    turn(loop)
    assert [str(each) for each in reported] == ["no"]
    assert readable == [b"y"]


@pytest.mark.parametrize("ask", ["call_soon", "call_later", "future", "stop"])
def test_a_call_scheduled_by_a_callback_does_not_wait_for_the_next_timer(
    loop: NodeLoop, ends: tuple[socket.socket, socket.socket], ask: str
) -> None:
    near, far = ends
    done = loop.create_future()
    done.add_done_callback(lambda _: loop.stop())

    def readable() -> None:
        near.recv(10)
        if ask == "call_soon":
            loop.call_soon(done.set_result, None)
        elif ask == "call_later":
            loop.call_later(0.01, done.set_result, None)
        elif ask == "future":
            done.set_result(None)
        else:
            loop.stop()

    loop.add_reader(near.fileno(), readable)
    rung: list[str] = []

    def ring() -> None:
        rung.append("late")
        loop.stop()

    late = loop.call_later(60, ring)
    far.send(b"x")
    loop.run_forever()
    late.cancel()
    assert rung == []


def test_timers_are_on_time_while_sockets_are_busy(loop: NodeLoop, ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    loop.add_reader(near.fileno(), lambda: far.send(near.recv(1)))
    far.send(b"x")
    near.send(b"y")
    loop.add_reader(far.fileno(), lambda: near.send(far.recv(1)))
    began = loop.time()
    loop.run_until_complete(asyncio.sleep(0.05))
    assert loop.time() - began > 0.04


def test_a_socket_that_asyncio_unregistered_is_not_polled(loop: NodeLoop) -> None:
    async def connect() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as near:
            server.setblocking(False)
            near.setblocking(False)
            await loop.sock_connect(near, server.getsockname())
            far, _ = await loop.sock_accept(server)
            with far:
                await loop.sock_sendall(far, b"x")
                assert await loop.sock_recv(near, 1) == b"x"
                for each in (server, near, far):
                    assert not asyncio.SelectorEventLoop.remove_reader(loop, each.fileno())
                    assert not asyncio.SelectorEventLoop.remove_writer(loop, each.fileno())

    loop.run_until_complete(connect())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readexactly(4))
    writer.close()


def test_asyncio_streams_and_timers_work(loop: NodeLoop) -> None:
    async def ask() -> bytes:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"ping")
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        server.close()
        return answer

    assert loop.run_until_complete(ask()) == b"ping"
