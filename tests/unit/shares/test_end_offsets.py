"""Tests of EndOffsets: the leader of a partition on another node is asked with a request that can be encoded."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.client.interfaces import PeerUnavailable
from penstock.model.ids import NodeId
from penstock.shares.end_offsets import EndOffsets
from penstock.wire import codec

TOPIC_ID = UUID(int=7)
VERSION = 11


class OtherNode:
    """A peer that encodes each request, as a connection does."""

    def __init__(self, *, offset: int | None) -> None:
        self.offset = offset
        self.seen: list[Any] = []

    async def ask(self, node_id: NodeId, api_key: int, request: Any, *, timeout_s: float, purpose: str) -> Any:
        if self.offset is None:
            raise PeerUnavailable("it does not answer")
        self.seen.append(codec.read_request(api_key, VERSION, codec.write_request(api_key, VERSION, request)))
        partition = SimpleNamespace(error_code=SimpleNamespace(value=0), offset=self.offset)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])])


def end_offsets(peers: OtherNode) -> EndOffsets:
    topic = SimpleNamespace(name="jobs", partitions=[SimpleNamespace(leader=2)])
    image = SimpleNamespace(topics_by_id={TOPIC_ID: topic})
    return EndOffsets(
        node_id=NodeId(1), image=lambda: cast(Any, image), peers=cast(Any, peers), replicas=cast(Any, None)
    )


async def test_the_leader_on_another_node_is_asked() -> None:
    peers = OtherNode(offset=42)
    assert await end_offsets(peers).find(TOPIC_ID, 0) == 42
    assert [each.topics[0].name for each in peers.seen] == ["jobs"]


@pytest.mark.parametrize(("topic_id", "index"), [(UUID(int=8), 0), (TOPIC_ID, 1)])
async def test_an_unknown_partition_has_no_end(topic_id: UUID, index: int) -> None:
    assert await end_offsets(OtherNode(offset=42)).find(topic_id, index) is None


async def test_an_unreachable_leader_gives_no_end() -> None:
    assert await end_offsets(OtherNode(offset=None)).find(TOPIC_ID, 0) is None
