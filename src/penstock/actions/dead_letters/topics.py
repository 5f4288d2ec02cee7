"""Dead-letter topics: which exist, and the letters in them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.actions.connection import REQUEST_TIMEOUT_S, Connection
from penstock.actions.dead_letters.dead_letter import DeadLetter, Filter, parse_dead_letter
from penstock.actions.dead_letters.replay import GROUP
from penstock.actions.dead_letters.share_letter import TOPIC_PREFIX
from penstock.actions.errors import ActionError
from penstock.actions.groups import committed_offsets
from penstock.actions.librdkafka import open_admin
from penstock.actions.positions import Earliest
from penstock.actions.record_format import LineRecord
from penstock.actions.topic_reader import Isolation, TopicReader, open_consumer

if TYPE_CHECKING:
    from confluent_kafka import Consumer

SUFFIX: Final = ".dlq"
PEEKED: Final = 10


def list_dead_letter_topics(connection: Connection, suffix: str = SUFFIX) -> list[dict[str, Any]]:
    """Return a row per dead-letter topic: how many letters it holds and how many were not replayed.

    The letters are read to be counted: offsets also count transaction markers and aborted records.
    """
    admin = open_admin(connection)
    names = sorted(
        name
        for name in admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        if name.endswith(suffix) or name.startswith(TOPIC_PREFIX)
    )
    replayed = committed_offsets(admin, GROUP) if names else {}
    rows = []
    consumer = open_consumer(connection, Isolation.COMMITTED)
    try:
        for name in names:
            letters = waiting = 0
            for records in TopicReader(consumer, name, None, Earliest(), follow=False).batches(None):
                letters += len(records)
                waiting += sum(_is_waiting(record, replayed) for record in records)
            # A share group's dead-letter topic may have letters of several topics.
            source = name.removesuffix(suffix) if name.endswith(suffix) else None
            rows.append({"topic": name, "source": source, "letters": letters, "not_replayed": waiting})
    finally:
        consumer.close()
    return rows


def _is_waiting(record: LineRecord, replayed: Mapping[tuple[str, int], int]) -> bool:
    assert record.topic is not None and record.partition is not None and record.offset is not None
    return record.offset >= replayed.get((record.topic, record.partition), 0)


def resolve_dead_letter_topic(consumer: "Consumer", name: str) -> str:
    """Return the dead-letter topic of a source topic, or the name itself if that topic holds dead letters."""
    topics = consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    if not name.endswith(SUFFIX) and name + SUFFIX in topics:
        return name + SUFFIX
    if name in topics and (
        name.endswith(SUFFIX) or name.startswith(TOPIC_PREFIX) or _begins_with_dead_letters(consumer, name)
    ):
        return name
    raise ActionError(f"Topic '{name}' has no dead-letter topic '{name}{SUFFIX}'.", code="NO_DEAD_LETTER_TOPIC")


def _begins_with_dead_letters(consumer: "Consumer", name: str) -> bool:
    """Whether a topic with another name is a dead-letter topic, from its first records."""
    batches = TopicReader(consumer, name, None, Earliest(), follow=False).batches(PEEKED)
    return any(parse_dead_letter(record).death is not None for records in batches for record in records)


def read_dead_letters(reader: TopicReader, wanted: Filter) -> Iterator[DeadLetter]:
    """Yield the dead letters that match."""
    for records in reader.batches(None):
        for record in records:
            letter = parse_dead_letter(record)
            if wanted.matches(letter):
                yield letter
