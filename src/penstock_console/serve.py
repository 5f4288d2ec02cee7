"""Runs the application in uvicorn until a signal."""

import asyncio
import errno
import socket
import sys
from collections.abc import Callable
from typing import Final

import uvicorn

from penstock.actions.errors import ActionError
from penstock.actions.port_owner import describe_owner
from penstock_console.app import build_app
from penstock_console.settings import ConsoleSettings

SHUTDOWN_S: Final = 2
CONNECTIONS_MAX: Final = 300
SWITCH_S: Final = 0.001


def serve(settings: ConsoleSettings, *, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; call `ready` with the address when browsers can connect."""
    listener = listen(settings.host, settings.port)
    # Threads that read a large cluster compute for tenths of a second, and with the default of 5 ms every step of the
    # event loop would wait as long for its turn.
    sys.setswitchinterval(SWITCH_S)
    try:
        asyncio.run(_run(settings, listener, ready))
    finally:
        listener.close()


async def _run(settings: ConsoleSettings, listener: socket.socket, ready: Callable[[str], None]) -> None:
    config = uvicorn.Config(
        build_app(settings),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=SHUTDOWN_S,
        ws="none",
    )
    server = uvicorn.Server(config)
    # The connections wait in the listener's queue until the server accepts them.
    ready(address_of(listener))
    await server.serve(sockets=[listener])


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # asyncio sends without delay only if the protocol is named; otherwise the body of a response waits up to 40 ms
        # for the client to confirm its header.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        owner = describe_owner(port) if error.errno == errno.EADDRINUSE else ""
        raise ActionError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Choose another port with --port "
            f"('penstock start': --console-port). {owner}"
        ) from None
    return listener
