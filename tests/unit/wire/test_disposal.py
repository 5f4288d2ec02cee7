"""wire/disposal.py: large bodies are freed a slice at a time."""

from __future__ import annotations

import struct
from weakref import WeakSet

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32

from penstock.model.job import finish
from penstock.wire.api import ApiKey
from penstock.wire.codec import reading_request
from penstock.wire.disposal import FREED_PER_SLICE, disposing, disposing_all
from penstock.wire.frame import MalformedRequest


class Name(str):
    """A name that can be watched."""

    __slots__ = ("__weakref__",)


def test_the_entries_of_a_request_are_freed_a_slice_at_a_time() -> None:
    alive: WeakSet[Name] = WeakSet()
    job = disposing(_creation(alive, 3 * FREED_PER_SLICE))
    assert [len(alive) for _ in job] == [2 * FREED_PER_SLICE + 1, FREED_PER_SLICE + 1, 1]
    assert len(alive) == 0


def test_a_long_list_within_an_entry_is_freed_a_slice_at_a_time() -> None:
    alive: WeakSet[Name] = WeakSet()
    job = disposing(_configured(alive, 2 * FREED_PER_SLICE))
    assert [len(alive) for _ in job] == [FREED_PER_SLICE + 2, 2]
    assert len(alive) == 0


def test_plain_values_and_nulls_are_freed_too() -> None:
    held = [None, "name", 7, b"bytes"]
    finish(disposing_all(held))
    assert held == []


def test_what_else_refers_to_an_entry_keeps_it() -> None:
    alive: WeakSet[Name] = WeakSet()
    body = _creation(alive, 3)
    second = body.topics[1]
    job = disposing(body)
    del body
    finish(job)
    assert [str(name) for name in alive] == [str(second.name)] == ["topic-1"]


def test_a_request_that_ends_too_early_is_malformed_after_its_entries_are_freed() -> None:
    count = 3 * FREED_PER_SLICE
    entries = b"".join(struct.pack(">h1sihii", 1, b"t", 1, 1, 0, 0) for _ in range(count))
    whole = struct.pack(">i", count) + entries + struct.pack(">i?", 1000, False)
    steps = sum(1 for _ in reading_request(ApiKey.CREATE_TOPICS, 4, whole))
    job = reading_request(ApiKey.CREATE_TOPICS, 4, whole[: -len(entries) // count])
    steps_of_malformed = 0
    with pytest.raises(MalformedRequest):
        for _ in job:
            steps_of_malformed += 1
    assert steps_of_malformed >= steps + 2


def _creation(alive: WeakSet[Name], count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=tuple(_topic(_watched(alive, f"topic-{number}")) for number in range(count)))


def _configured(alive: WeakSet[Name], count: int) -> CreateTopicsRequest:
    names = [_watched(alive, f"config-{number}") for number in range(count)]
    configs = tuple(CreatableTopicConfig(name=name, value="") for name in names)
    return CreateTopicsRequest(topics=(_topic(Name("topic"), configs),))


def _topic(name: Name, configs: tuple[CreatableTopicConfig, ...] = ()) -> CreatableTopic:
    return CreatableTopic(
        name=TopicName(name), num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=configs
    )


def _watched(alive: WeakSet[Name], text: str) -> Name:
    name = Name(text)
    alive.add(name)
    return name
