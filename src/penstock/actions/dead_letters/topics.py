"""Dead-letter topics: which exist, and the letters in them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from penstock.actions.connection import REQUEST_TIMEOUT_S
from penstock.actions.dead_letters.dead_letter import DeadLetter, Filter, parse_dead_letter
from penstock.actions.dead_letters.replay import GROUP
from penstock.actions.errors import ActionError
from penstock.actions.groups import committed_offsets
from penstock.actions.partition_offsets import earliest_offsets, latest_offsets
from penstock.actions.topic_reader import TopicReader

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

SUFFIX: Final = ".dlq"


def list_dead_letter_topics(admin: "AdminClient", suffix: str = SUFFIX) -> list[dict[str, Any]]:
    """Return a row per dead-letter topic: how many letters it holds and how many were not replayed."""
    topics = {
        name: topic
        for name, topic in sorted(admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics.items())
        if name.endswith(suffix)
    }
    partitions = [(name, index) for name, topic in topics.items() for index in topic.partitions]
    earliest, latest = earliest_offsets(admin, partitions), latest_offsets(admin, partitions)
    replayed = committed_offsets(admin, GROUP) if topics else {}
    rows = []
    for name in topics:
        letters = waiting = 0
        for partition in (each for each in partitions if each[0] == name):
            first, end = earliest.get(partition) or 0, latest.get(partition) or 0
            letters += end - first
            waiting += max(0, end - max(first, replayed.get(partition, first)))
        rows.append({"topic": name, "source": name.removesuffix(suffix), "letters": letters, "not_replayed": waiting})
    return rows


def resolve_dead_letter_topic(consumer: "Consumer", name: str) -> str:
    """Return the dead-letter topic of a source topic, or the name itself if it is an existing topic."""
    topics = consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    if not name.endswith(SUFFIX) and name + SUFFIX in topics:
        return name + SUFFIX
    if name in topics:
        return name
    raise ActionError(f"Topic '{name}' has no dead-letter topic.", code="NO_DEAD_LETTER_TOPIC")


def read_dead_letters(reader: TopicReader, wanted: Filter) -> Iterator[DeadLetter]:
    """Yield the dead letters that match."""
    for records in reader.batches(None):
        for record in records:
            letter = parse_dead_letter(record)
            if wanted.matches(letter):
                yield letter
