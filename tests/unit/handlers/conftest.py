from collections.abc import AsyncIterator

import pytest

from tests.unit.controller.cluster import TOPIC_ID, broker, directory
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import put_topic


@pytest.fixture
async def node() -> AsyncIterator[FakeNode]:
    """Yield the active controller of three brokers, with topic t of one partition on all of them."""
    made = FakeNode(brokers=[broker(1), broker(2), broker(3)])
    replicas = (1, 2, 3)
    directories = tuple(directory(each) for each in replicas)
    put_topic(made, "t", 1, topic_id=TOPIC_ID, replicas=replicas, isr=replicas, directories=directories)
    made.context.monitor.leadership_changed(True, 1)
    yield made
    made.context.monitor.stop()
