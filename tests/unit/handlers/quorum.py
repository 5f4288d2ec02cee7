"""Requests of the metadata quorum, to the nodes of `Many`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kio.schema.errors import ErrorCode

from penstock.wire import codec
from penstock.wire.api import APIS
from penstock.wire.frame import request_head
from tests.unit.handlers.requests import body_of
from tests.unit.metadata.many import CLUSTER, Many

METADATA = "__cluster_metadata"


@asynccontextmanager
async def nodes(count: int) -> AsyncIterator[Many]:
    """Start that many voters; time stands still, so that none of them becomes leader by itself."""
    world = Many(count)
    await world.start()
    try:
        yield world
    finally:
        for quorum in world.quorums.values():
            await quorum.close()


async def ask(world: Many, api_key: int, *, node: int = 1, version: int | None = None, **fields: Any) -> Any:
    version = APIS[api_key].max_version if version is None else version
    body = codec.write_request(api_key, version, body_of(api_key, version, **{"cluster_id": CLUSTER, **fields}))
    return await world.answer(
        node, memoryview(bytearray(request_head(api_key, version, 0, "test", len(body))[4:] + body))
    )


async def check_refusals(api_key: int, sender: str, **partition: Any) -> None:
    """Check that other clusters, this node itself and other topics are refused; `sender` is the field with its id."""

    def topics(*partitions: dict[str, Any], name: str = METADATA) -> list[dict[str, Any]]:
        return [{"topic_name": name, "partitions": list(partitions)}]

    good = {**partition, sender: 2}
    async with nodes(2) as world:
        for fields, error in (
            ({"cluster_id": "another", "topics": topics(good)}, ErrorCode.inconsistent_cluster_id),
            ({"topics": topics({**good, sender: 1})}, ErrorCode.invalid_request),
            ({"topics": topics({**good, sender: -1})}, ErrorCode.invalid_request),
            ({"topics": topics()}, ErrorCode.invalid_request),
            ({"topics": topics(good, good)}, ErrorCode.invalid_request),
            ({"topics": topics(good, name="orders")}, ErrorCode.invalid_request),
            ({"topics": []}, ErrorCode.invalid_request),
        ):
            reply = await ask(world, api_key, **fields)
            assert (reply.error_code, reply.topics) == (error, ()), fields
        assert world.quorums[1].epoch == 0, "a refused request changes nothing"
        reply = await ask(world, api_key, cluster_id=None, topics=topics(good))
        assert reply.error_code == ErrorCode.none, "old requests do not name the cluster"
