from collections.abc import AsyncIterator

import pytest

from penstock.ports.network import Limits
from penstock.ports.real.network import RealNetwork
from tests.unit.ports.real.sockets import Server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server(RealNetwork(Limits(frame_size_max=64 * 1024 * 1024)))
    yield made
    await made.close()
