"""Long requests, answered part by part, so that none blocks the event loop for long.

Most APIs take a list of independent entries. A long list is split into parts of `PART_SIZE`
entries; each is handled as a separate request, and the responses are joined. Other requests are served in between: a
request of several parts is not one atomic change, which Kafka does not promise either. Lists within an entry that
no real client makes long are refused. Goes to the handlers of registry.py. Refuses: MalformedRequest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from penstock.handlers.support.context import ColdHandler, Context, Request
from penstock.scheduling.scheduler import SLICE_COST
from penstock.wire.api import ApiKey
from penstock.wire.frame import MalformedRequest

PART_SIZE: Final = SLICE_COST
FEW_MAX: Final = 1_000
CHECKED_PER_SLICE: Final = 5_000


class Split(NamedTuple):
    """The rules for splitting the list of a request and joining the lists of the responses."""

    entries: str
    """The field of the request with the list."""
    answers: str
    """The field of the response with the results."""
    inner: str = ""
    """The list in each entry that is split too: mostly the partitions of a topic."""
    inner_answers: str = ""
    key: str = "name"
    """The fields that distinguish the results of two entries."""
    few: tuple[str, ...] = ()
    """Lists in each entry that may not have more than `FEW_MAX` elements."""


SPLITS: Final[Mapping[int, Split]] = {
    ApiKey.FIND_COORDINATOR: Split("coordinator_keys", "coordinators"),
    ApiKey.LEAVE_GROUP: Split("members", "members"),
    ApiKey.DESCRIBE_GROUPS: Split("groups", "groups"),
    ApiKey.DELETE_GROUPS: Split("groups_names", "results"),
    ApiKey.DESCRIBE_TRANSACTIONS: Split("transactional_ids", "transaction_states"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Split("group_ids", "groups"),
    ApiKey.DESCRIBE_CONFIGS: Split("resources", "results", few=("configuration_keys",)),
    ApiKey.ALTER_CONFIGS: Split("resources", "responses", few=("configs",)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Split("resources", "responses", few=("configs",)),
    ApiKey.ALTER_CLIENT_QUOTAS: Split("entries", "entries", few=("entity", "ops")),
    ApiKey.CREATE_TOPICS: Split("topics", "topics", few=("configs",)),
    ApiKey.DELETE_TOPICS: Split("topics", "responses"),
    ApiKey.CREATE_PARTITIONS: Split("topics", "results"),
    ApiKey.DELETE_RECORDS: Split("topics", "topics", "partitions", "partitions"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Split("topics", "topics", "partitions", "partitions", key="topic"),
    ApiKey.DESCRIBE_PRODUCERS: Split("topics", "topics", "partition_indexes", "partitions"),
    ApiKey.TXN_OFFSET_COMMIT: Split("topics", "topics", "partitions", "partitions"),
    ApiKey.OFFSET_DELETE: Split("topics", "topics", "partitions", "partitions"),
    ApiKey.ELECT_LEADERS: Split(
        "topic_partitions", "replica_election_results", "partitions", "partition_result", key="topic"
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Split("topics", "responses", "partitions", "partitions"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Split("topics", "topics", "partition_indexes", "partitions"),
    ApiKey.WRITE_TXN_MARKERS: Split("markers", "markers", "topics", "topics", key="producer_id"),
    ApiKey.ADD_PARTITIONS_TO_TXN: Split("transactions", "results_by_transaction", few=("topics",)),
    ApiKey.ALTER_PARTITION: Split("topics", "topics", "partitions", "partitions", key="topic_id"),
}


async def is_long(request: Request) -> bool:
    """Return whether to answer a request in parts; raise MalformedRequest for lists that no real client sends."""
    split = SPLITS.get(request.header.api_key)
    if split is None:
        return False
    entries = getattr(request.body, split.entries)
    if entries is None:
        return False
    if split.few:
        # A check costs little, but there may be a hundred thousand entries.
        for start in range(0, len(entries), CHECKED_PER_SLICE):
            if start:
                await request.pace.rest()
            _check_few(split, entries[start : start + CHECKED_PER_SLICE])
    if len(entries) > PART_SIZE:
        return True
    return bool(split.inner) and sum(len(getattr(entry, split.inner) or ()) for entry in entries) > PART_SIZE


def _check_few(split: Split, entries: Sequence[Any]) -> None:
    for name in split.few:
        if any(len(getattr(entry, name) or ()) > FEW_MAX for entry in entries):
            raise MalformedRequest(f"{name} has more than {FEW_MAX} elements")


async def answer_in_parts(handler: ColdHandler, context: Context, request: Request) -> Any:
    """Answer a long request."""
    split = SPLITS[request.header.api_key]
    answers: list[Any] = []
    answer: Any = None
    async for entries in request.pace.each(_parts(split, getattr(request.body, split.entries)), cost=SLICE_COST):
        part = replace(request, body=replace(request.body, **{split.entries: entries}))
        answer = await handler(context, part)
        if getattr(answer, "error_code", 0):
            return answer
        _join(split, answers, getattr(answer, split.answers))
    return replace(answer, **{split.answers: tuple(answers)})


def _parts(split: Split, entries: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    part: list[Any] = []
    room = PART_SIZE
    for entry in entries:
        inner = (getattr(entry, split.inner) or ()) if split.inner else ()
        start = 0
        while True:
            taken = inner[start : start + room]
            part.append(entry if len(taken) == len(inner) else replace(entry, **{split.inner: taken}))
            start += len(taken)
            room -= max(len(taken), 1)
            if room <= 0:
                yield tuple(part)
                part, room = [], PART_SIZE
            if start >= len(inner):
                break
    if part:
        yield tuple(part)


def _join(split: Split, answers: list[Any], more: tuple[Any, ...]) -> None:
    """Add results to those of earlier parts; the first results of an entry that was split are already there."""
    if split.inner_answers and answers and more:
        first, last = more[0], answers[-1]
        if getattr(first, split.key) == getattr(last, split.key):
            both = getattr(last, split.inner_answers) + getattr(first, split.inner_answers)
            answers[-1] = replace(last, **{split.inner_answers: both})
            more = more[1:]
    answers.extend(more)
