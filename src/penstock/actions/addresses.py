"""Addresses of brokers as users write them."""

from typing import Final

from penstock.actions.errors import ActionError

DEFAULT_PORT: Final = 9092
DEFAULT_BOOTSTRAP: Final = f"localhost:{DEFAULT_PORT}"


def parse_address(text: str, *, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """Parse HOST:PORT, [IPV6]:PORT or a host without a port."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text.strip(), str(default_port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ActionError(f"Invalid address '{text}': expected HOST:PORT, for example {DEFAULT_BOOTSTRAP}.")
    return host, int(port)


def parse_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Parse addresses that are separated by commas. There is at least one."""
    return [parse_address(part) for part in bootstrap.split(",") if part.strip()] or [parse_address(bootstrap)]
