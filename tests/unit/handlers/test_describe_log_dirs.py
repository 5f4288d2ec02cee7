"""DescribeLogDirs through its handler."""

from typing import Any

import pytest
from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic, DescribeLogDirsRequest

from penstock.handlers import (
    describe_log_dirs,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import node_with_two_partitions


async def log_dirs(node: FakeNode, *requested: tuple[str, tuple[int, ...]], everything: bool = False) -> Any:
    listed: Any = tuple(DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in requested)  # type: ignore[arg-type]
    body = DescribeLogDirsRequest(topics=None if everything else listed)
    reply = await node.ask(describe_log_dirs.handle, ApiKey.DESCRIBE_LOG_DIRS, body)
    (result,) = reply.results
    return result


async def test_the_folder_is_described_with_its_partitions_and_its_space() -> None:
    result = await log_dirs(node_with_two_partitions(), everything=True)
    assert (result.error_code, result.log_dir, result.total_bytes, result.usable_bytes) == (0, "/data", 1000, 400)
    assert [
        (topic.name, each.partition_index, each.partition_size, each.offset_lag, each.is_future_key)
        for topic in result.topics
        for each in topic.partitions
    ] == [("a", 0, 300, 0, False), ("b", 1, 10, 0, False)]


async def test_only_requested_partitions_on_this_node_are_described() -> None:
    result = await log_dirs(node_with_two_partitions(), ("a", (0, 5)), ("b", (0,)), ("zz", (0,)))
    assert [topic.name for topic in result.topics] == ["a"]
    assert (await log_dirs(node_with_two_partitions())).topics == ()


async def test_a_failed_folder_is_a_storage_error() -> None:
    node = node_with_two_partitions()
    node.store.directory.failure = OSError("gone")
    result = await log_dirs(node, everything=True)
    assert (result.error_code, result.topics, result.total_bytes) == (56, (), -1)


async def test_a_folder_whose_size_cannot_be_read_is_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_with_two_partitions()

    def fail(path: str) -> tuple[int, int]:
        raise OSError(5, "bad sector")

    monkeypatch.setattr(node.context.disk, "space", fail)
    result = await log_dirs(node, everything=True)
    assert (result.error_code, result.log_dir, result.topics) == (56, "/data", ())
