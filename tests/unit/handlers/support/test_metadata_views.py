import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_response_schema
from kio.schema.metadata.v10.request import MetadataRequest
from kio.serial import entity_reader

from penstock.handlers import metadata
from penstock.handlers.support import metadata_views
from penstock.handlers.support.context import Request
from penstock.handlers.support.metadata_views import MetadataViews, View
from penstock.handlers.support.reply import Encoded
from penstock.metadata.delta import Delta
from penstock.metadata.image import Image, PartitionImage, TopicImage
from penstock.model.ids import LeaderEpoch, NodeId, TopicName
from penstock.wire.api import ApiKey
from penstock.wire.frame import parse_response_header
from penstock.wire.hot.metadata import OPERATIONS_UNKNOWN
from tests.unit.controller.cluster import broker, cluster, node_ids
from tests.unit.handlers.fakes import FakeNode

PARTITION = PartitionImage(leader=node_ids(1)[0], leader_epoch=LeaderEpoch(3), replicas=node_ids(1), isr=node_ids(1))


def topic_of(number: int, *, partition_count: int = 1) -> TopicImage:
    return TopicImage(name=TopicName(f"t{number}"), id=UUID(int=number + 1), partitions=(PARTITION,) * partition_count)


def with_topics(image: Image, *topics: TopicImage) -> Image:
    return replace(
        image,
        topics={topic.name: topic for topic in topics},
        topics_by_id={topic.id: topic for topic in topics},
    )


def view_of(views: MetadataViews, image: Image, version: int = 13, operations: int = OPERATIONS_UNKNOWN) -> View:
    return views.view(image, views.reach(image, "PLAINTEXT"), version, operations=operations)


def test_a_topic_is_encoded_once_for_all_versions_with_the_same_format() -> None:
    views, topic = MetadataViews(), topic_of(1)
    image = with_topics(cluster(), topic)
    assert view_of(views, image, 10).cached(topic) is None
    piece = view_of(views, image, 10).topic(topic)
    assert all(view_of(views, image, version).cached(topic) is piece for version in (10, 11, 12, 13))
    assert view_of(views, image, 9).cached(topic) is None
    assert view_of(views, image, 13, operations=8).cached(topic) is None


def test_an_encoded_topic_stays_valid_in_images_that_do_not_change_it() -> None:
    views, topic = MetadataViews(), topic_of(1)
    image = with_topics(cluster(), topic)
    piece = view_of(views, image).topic(topic)
    later = with_topics(replace(image, brokers=dict(image.brokers)), topic, topic_of(2))
    assert view_of(views, later).cached(topic) is piece
    changed = replace(topic, partitions=(PARTITION, PARTITION))
    assert view_of(views, with_topics(image, changed)).cached(changed) is None


def test_an_equal_topic_is_not_mistaken_for_the_cached_one() -> None:
    views, topic = MetadataViews(), topic_of(1)
    image = with_topics(cluster(), topic)
    view_of(views, image).topic(topic)
    assert view_of(views, image).cached(topic_of(1)) is None


def test_a_broker_that_leaves_changes_the_view_and_its_return_restores_it() -> None:
    views, topic = MetadataViews(), topic_of(1)
    both = with_topics(cluster(broker(1), broker(2)), topic)
    one = with_topics(cluster(broker(1), broker(2, fenced=True)), topic)
    piece = view_of(views, both).topic(topic)
    assert view_of(views, one).cached(topic) is None
    assert view_of(views, both).cached(topic) is piece


def test_views_in_use_stay_and_the_others_are_dropped() -> None:
    views, topic = MetadataViews(), topic_of(1)
    image = with_topics(cluster(), topic)
    first, second = view_of(views, image, operations=0), view_of(views, image, operations=1)
    for operations in range(2, metadata_views.VIEWS_MAX + 1):
        assert view_of(views, image, operations=0) is first
        view_of(views, image, operations=operations)
    assert view_of(views, image, operations=0) is first
    assert view_of(views, image, operations=1) is not second


def test_large_views_are_dropped_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_views, "VIEWS_SIZE_MAX", 100)
    views, topic = MetadataViews(), topic_of(1, partition_count=10)
    image = with_topics(cluster(), topic)
    large = view_of(views, image, 13)
    piece = large.topic(topic)
    large.cache_all(image, piece)
    large.cache_all(image, piece)
    assert large.size == len(large.topic(topic)) * 2
    view_of(views, image, 1)
    assert view_of(views, image, 13) is not large


def test_deleted_topics_are_dropped_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_views, "FORGOTTEN_MAX", 1)
    views, topics = MetadataViews(), [topic_of(number) for number in range(4)]
    image = with_topics(cluster(), *topics)
    view = view_of(views, image)
    sizes = [len(view.topic(topic)) for topic in topics]
    left = with_topics(image, topics[0])
    assert view_of(views, left) is view
    assert [view.cached(topic) is None for topic in topics] == [False, True, True, True]
    assert view.size == sizes[0]


def test_the_cache_of_assignments_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_views, "ASSIGNMENTS_MAX", 0)
    views, topic = MetadataViews(), topic_of(1, partition_count=2)
    piece = view_of(views, with_topics(cluster(), topic)).topic(topic)
    monkeypatch.undo()
    assert view_of(MetadataViews(), with_topics(cluster(), topic)).topic(topic) == piece


def all_topics(node: FakeNode, *, version: int = 12, cluster_operations: bool = False) -> Request:
    body = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
        include_cluster_authorized_operations=cluster_operations,
    )
    return node.request(ApiKey.METADATA, version, body)


def turns(node: FakeNode) -> Iterator[Encoded | None]:
    """Request all topics; yield None for each rest, then the response."""
    work = metadata.handle(node.context, all_topics(node))
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            yield end.value
            return
        yield None


def test_other_work_runs_while_many_topics_are_encoded_and_none_is_encoded_twice() -> None:
    node = FakeNode()
    node.quorum.image = with_topics(node.image, *(topic_of(number, partition_count=999) for number in range(9)))
    *waited, first = turns(node)
    assert waited == [None] * 8
    (again,) = turns(node)
    assert first is not None and again is not None
    assert first.parts == again.parts
    assert first.parts[1] is again.parts[1]


async def test_one_request_encodes_all_topics_for_those_that_arrive_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode()
    node.quorum.image = with_topics(node.image, *(topic_of(number, partition_count=999) for number in range(9)))
    kept = []
    cache_all = View.cache_all

    def counted(view: View, image: Image, pieces: bytes) -> None:
        kept.append(image)
        cache_all(view, image, pieces)

    monkeypatch.setattr(View, "cache_all", counted)
    answers = await asyncio.gather(*(metadata.handle(node.context, all_topics(node)) for _ in range(3)))
    assert len(kept) == 1
    assert len({id(answer.parts[1]) for answer in answers}) == 1


async def test_a_response_uses_one_image_even_if_another_arrives_meanwhile() -> None:
    node = FakeNode()
    old = [topic_of(number, partition_count=999) for number in range(9)]
    node.quorum.image = with_topics(node.image, *old)
    slow = asyncio.create_task(metadata.handle(node.context, all_topics(node)))
    await asyncio.sleep(0)
    assert not slow.done()
    node.quorum.image = with_topics(node.image, topic_of(1))
    new_answer = await metadata.handle(node.context, all_topics(node))
    expected = view_of(MetadataViews(), node.image, 12)
    assert (await slow).parts[1] == b"".join(map(expected.topic, old))
    assert new_answer.parts[1] == expected.topic(topic_of(1))


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize(("requested", "operations"), [(True, 8096), (False, OPERATIONS_UNKNOWN)])
async def test_the_operations_of_the_cluster_are_returned_on_request(
    version: int, requested: bool, operations: int
) -> None:
    node = FakeNode()
    answer = await metadata.handle(node.context, all_topics(node, version=version, cluster_operations=requested))
    frame = b"".join(bytes(part) for part in answer.parts if isinstance(part, bytes))[4:]
    _, position = parse_response_header(ApiKey.METADATA, version, memoryview(frame))
    response: Any = entity_reader(load_response_schema(ApiKey.METADATA, version))(frame[position:], 0)[0]
    assert response.cluster_authorized_operations == operations


def test_a_newly_fenced_broker_is_listed_a_little_longer_and_leads_nothing() -> None:
    now = 10.0
    views = MetadataViews(lambda: now)
    both = cluster(broker(1), broker(2))
    one = replace(both, brokers={**both.brokers, NodeId(2): replace(both.brokers[NodeId(2)], fenced=True)})

    def listed(image: Image) -> bool:
        return b"host2" in views.reach(image, "PLAINTEXT").cluster(image, 12, "c", NodeId(1))

    delta = replace(Delta.whole(one), before=both)
    views.image_changed(delta, one)
    assert listed(one)
    assert views.reach(one, "PLAINTEXT").reachable == {1}
    only_brokers = views.reach(one, "PLAINTEXT").cluster(one, 12, "c", NodeId(1), lingers=False)
    assert b"host2" not in only_brokers, "a client that requests no topics would wait for it"
    now += metadata_views.LINGER_S
    assert not listed(one)
    views.image_changed(delta, one)
    views.image_changed(replace(Delta.whole(both), before=one), both)
    now += metadata_views.LINGER_S
    assert listed(both)


def test_a_broker_that_was_fenced_before_this_node_started_is_not_listed() -> None:
    views = MetadataViews()
    image = cluster(broker(1), broker(2, fenced=True))
    views.image_changed(Delta.whole(image), image)
    assert b"host2" not in views.reach(image, "PLAINTEXT").cluster(image, 12, "c", NodeId(1))
