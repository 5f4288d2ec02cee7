"""The real network is tested on asyncio's own loop, as in another program, and on that of a node."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from penstock.ports.real.loop import NodeLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]] | None:
    if item.path.name in ("test_real_network.py", "test_request_memory.py"):
        return {"asyncio": asyncio.SelectorEventLoop, "node": NodeLoop}
    return {"asyncio": asyncio.SelectorEventLoop}
