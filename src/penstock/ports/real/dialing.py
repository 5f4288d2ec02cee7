"""Connections to peers, opened without blocking the event loop. Called by network.py only."""

import asyncio
import socket

CONNECT_S_MAX = 5.0


async def dial(host: str, port: int) -> socket.socket:
    """Return a connected socket. Raises OSError: ConnectionRefusedError if every address of the host refused."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    errors: list[OSError] = []
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.wait_for(loop.sock_connect(sock, address), CONNECT_S_MAX)
            return sock
        except OSError as error:  # TimeoutError is one of them
            sock.close()
            errors.append(error)
        except BaseException:
            sock.close()
            raise
    # The peer's process is known to be gone only if all addresses refuse the connection.
    raise next((error for error in errors if not isinstance(error, ConnectionRefusedError)), errors[0])
