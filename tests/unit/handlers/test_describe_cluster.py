"""DescribeCluster through its handler."""

from typing import Any

import pytest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

from penstock.handlers import (
    describe_cluster,
)
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import broker
from tests.unit.handlers.fakes import FakeNode


async def cluster(node: FakeNode, *, version: int = 2, **fields: Any) -> Any:
    values: dict[str, Any] = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    body = DescribeClusterRequest(**values | fields)
    return await node.ask(describe_cluster.handle, ApiKey.DESCRIBE_CLUSTER, body, version=version)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_cluster_is_described_by_its_id_its_controller_and_its_brokers(version: int) -> None:
    node = FakeNode(brokers=[broker(1), broker(2, rack="r"), broker(3, fenced=True)])
    reply = await cluster(node, version=version)
    assert (reply.error_code, reply.cluster_id, reply.controller_id, reply.endpoint_type) == (0, "the-cluster", 1, 1)
    assert [(each.broker_id, each.host, each.port, each.rack) for each in reply.brokers] == [
        (1, "host1", 9092, None),
        (2, "host2", 9092, "r"),
    ]
    assert reply.cluster_authorized_operations == -(2**31)


async def test_fenced_brokers_and_operations_are_returned_on_request() -> None:
    node = FakeNode(brokers=[broker(1), broker(3, fenced=True)])
    reply = await cluster(node, include_fenced_brokers=True, include_cluster_authorized_operations=True)
    assert [(each.broker_id, each.is_fenced) for each in reply.brokers] == [(1, False), (3, True)]
    assert reply.cluster_authorized_operations == 8096


async def test_a_live_broker_is_named_as_controller_instead_of_a_fenced_one() -> None:
    assert (await cluster(FakeNode(brokers=[broker(1, fenced=True), broker(2)]))).controller_id == 2
    assert (await cluster(FakeNode(brokers=[broker(1, fenced=True)]))).controller_id == -1


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        (2, 114, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"),
        (5, 115, "Unsupported endpoint type 5"),
    ],
)
async def test_other_endpoint_types_are_refused(kind: int, code: int, message: str) -> None:
    reply = await cluster(FakeNode(), endpoint_type=kind)
    assert (reply.error_code, reply.error_message) == (code, message)
    assert (reply.cluster_id, reply.controller_id, reply.brokers) == ("", -1, ())
