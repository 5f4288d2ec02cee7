"""AllocateProducerIds through its handler."""

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.errors import ErrorCode

from penstock.handlers import allocate_producer_ids
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode


async def allocate(node: FakeNode, *, broker_id: int = 1, epoch: int = 1) -> tuple[ErrorCode, int, int]:
    body = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)  # type: ignore[arg-type]
    reply = await node.ask(allocate_producer_ids.handle, ApiKey.ALLOCATE_PRODUCER_IDS, body)
    return reply.error_code, reply.producer_id_start, reply.producer_id_len


async def test_no_id_is_allocated_twice(node: FakeNode) -> None:
    assert await allocate(node) == (ErrorCode.none, 0, 1000)
    assert await allocate(node, broker_id=2, epoch=2) == (ErrorCode.none, 1000, 1000)


async def test_a_refused_broker_gets_an_empty_block(node: FakeNode) -> None:
    assert await allocate(node, epoch=0) == (ErrorCode.stale_broker_epoch, -1, 0)
    assert await allocate(node, broker_id=9) == (ErrorCode.stale_broker_epoch, -1, 0)
    node.quorum.is_active = False
    assert await allocate(node) == (ErrorCode.not_controller, -1, 0)
    assert node.image.next_producer_id == 0
