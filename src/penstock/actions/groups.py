"""Consumer groups: descriptions, committed offsets, lag, and resetting offsets.

`lag_rows` and `total_lag` do no I/O; the rest sends requests through librdkafka's admin client.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.actions.connection import REQUEST_TIMEOUT_S
from penstock.actions.errors import UNKNOWN_GROUP, ActionError, unknown_partition, unknown_topic
from penstock.actions.librdkafka import action_error, wait, wait_all
from penstock.actions.offset_reset import OffsetReset, PartitionState, Target
from penstock.actions.partition_offsets import TopicPartition, earliest_offsets, first_offsets_since, latest_offsets
from penstock.actions.positions import AtTime

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Row = dict[str, Any]


class Member(NamedTuple):
    """One consumer of a group."""

    member: str
    instance: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class Group(NamedTuple):
    """A group as its coordinator describes it."""

    name: str
    state: str
    type: str
    assignor: str
    coordinator: str
    members: tuple[Member, ...]

    @property
    def exists(self) -> bool:
        return self.state != "dead"


class ListedGroup(NamedTuple):
    group: str
    state: str
    type: str


def list_groups(
    admin: "AdminClient", *, states: Collection[str] = (), types: Collection[str] = ()
) -> list[ListedGroup]:
    """List the groups in one of the states and of one of the types; an empty collection means any."""
    from confluent_kafka import ConsumerGroupState, ConsumerGroupType

    filters: dict[str, Any] = {}
    if states:
        filters["states"] = {parse_enum(ConsumerGroupState, text, "group state") for text in states}
    if types:
        filters["types"] = {parse_enum(ConsumerGroupType, text, "group type") for text in types}
    listed = wait(admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S, **filters), about="groups")
    if listed.errors:
        raise action_error(listed.errors[0].args[0], about="groups")
    return sorted(ListedGroup(str(each.group_id), _word(each.state), _word(each.type)) for each in listed.valid or [])


def describe_groups(admin: "AdminClient", names: Sequence[str]) -> list[Group]:
    """Describe groups. A group that does not exist has the state `dead`, as in Kafka."""
    if not names:
        return []
    futures = admin.describe_consumer_groups(list(dict.fromkeys(names)), request_timeout=REQUEST_TIMEOUT_S)
    return [_group(name, found) for name, found in wait_all(futures).items()]


def describe_existing_groups(admin: "AdminClient", names: Sequence[str]) -> list[Group]:
    """Describe groups; raise if one does not exist."""
    return require_existing(describe_groups(admin, names))


def require_existing(groups: Iterable[Group]) -> list[Group]:
    """Return the groups; raise if one does not exist."""
    found = list(groups)
    missing = [group.name for group in found if not group.exists]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        verb = "do" if plural else "does"
        names = ", ".join(f"'{name}'" for name in missing)
        raise ActionError(f"Group{plural} {names} {verb} not exist.", code=UNKNOWN_GROUP, about=missing[0])
    return found


def delete_groups(admin: "AdminClient", names: Sequence[str], *, done: Callable[[str], None]) -> None:
    """Delete groups; `done` is called with the name of each deleted group."""
    futures = admin.delete_consumer_groups(list(dict.fromkeys(names)), request_timeout=REQUEST_TIMEOUT_S)
    wait_all(futures, done=done)


def member_rows(group: Group) -> list[Row]:
    """Return a row per member; one row without a member if the group is empty."""
    common = {
        "group": group.name,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
    }
    rows = []
    for member in group.members:
        partitions = [f"{topic}-{partition}" for topic, partition in member.partitions]
        rows.append({**common, **member._asdict(), "partitions": partitions})
    return rows or [{**common, "partitions": []}]


# -- offsets and lag -------------------------------------------------------------------------


def committed_offsets(admin: "AdminClient", group: str) -> dict[TopicPartition, int]:
    """Return every offset that the group has committed."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    future = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_TIMEOUT_S
    )[group]
    found = wait(future, about=group).topic_partitions or []
    return {(entry.topic, entry.partition): entry.offset for entry in found if entry.offset >= 0}


def measure_lag(admin: "AdminClient", group: Group, topics: Collection[str] = ()) -> list[Row]:
    """Return a row per partition of a group; of these topics only, unless empty."""
    committed = committed_offsets(admin, group.name)
    owned = {partition for member in group.members for partition in member.partitions}
    rows = lag_rows(group, committed, latest_offsets(admin, committed.keys() | owned))
    return [row for row in rows if not topics or row["topic"] in topics]


def lag_rows(
    group: Group, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int | None]
) -> list[Row]:
    """Return a row for each partition that has a committed offset or an owner."""
    owners = {partition: member for member in group.members for partition in member.partitions}
    rows = []
    for partition in sorted(committed.keys() | owners.keys()):
        offset, end, owner = committed.get(partition), ends.get(partition), owners.get(partition)
        rows.append(
            {
                "group": group.name,
                "topic": partition[0],
                "partition": partition[1],
                "committed": offset,
                "end": end,
                # A truncated or recreated log can end before the committed offset.
                "lag": None if offset is None or end is None else max(0, end - offset),
                "client_id": owner.client_id if owner else None,
                "host": owner.host if owner else None,
                "member": owner.member if owner else None,
            }
        )
    return rows


def group_total_row(group: Group, rows: Iterable[Row]) -> Row:
    """Return one row for a group, from the lag rows of all groups."""
    own = [row for row in rows if row["group"] == group.name]
    return {
        "group": group.name,
        "state": group.state,
        "members": len(group.members),
        "partitions": len(own),
        "lag": total_lag(own),
    }


def total_lag(rows: Iterable[Mapping[str, Any]]) -> int:
    """Add up the lags that are known."""
    return sum(row["lag"] or 0 for row in rows)


# -- offset reset ----------------------------------------------------------------------------


def partition_states(
    admin: "AdminClient", group: str, wanted: Mapping[str, set[int] | None], target: Target
) -> list[PartitionState]:
    """Return the offsets that a reset plan needs, of the wanted partitions or of all that the group has committed."""
    committed = committed_offsets(admin, group)
    partitions = sorted(_resolve_partitions(admin, wanted) if wanted else committed)
    if not partitions:
        raise ActionError(f"Group '{group}' has no committed offsets.", code="NO_COMMITTED_OFFSETS")
    earliest, latest = earliest_offsets(admin, partitions), latest_offsets(admin, partitions)
    at_time: dict[TopicPartition, int | None] = {}
    if isinstance(target, AtTime):
        at_time = first_offsets_since(admin, partitions, target.timestamp_ms)
    states = []
    for partition in partitions:
        first, last = earliest.get(partition), latest.get(partition)
        if first is None or last is None:
            raise ActionError(
                f"Cannot read the offsets of {partition[0]}-{partition[1]}: it has no leader or was deleted. "
                "Try again, or name the topics to reset."
            )
        states.append(PartitionState(*partition, committed.get(partition), first, last, at_time.get(partition)))
    return states


def commit_reset(admin: "AdminClient", group: str, moves: Sequence[OffsetReset]) -> None:
    """Commit the new offsets of a plan."""
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka import TopicPartition as KafkaTopicPartition

    offsets = [KafkaTopicPartition(move.topic, move.partition, move.new) for move in moves]
    future = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, offsets)], request_timeout=REQUEST_TIMEOUT_S
    )[group]
    for entry in wait(future, about=group).topic_partitions or []:
        if entry.error is not None:
            raise action_error(entry.error, about=f"{entry.topic}-{entry.partition}")


def describe_active_members(group: Group) -> str:
    """Return the sentence that says which members prevent a reset."""
    who = ", ".join(f"{member.client_id} at {member.host}" for member in group.members[:3])
    more = f" and {len(group.members) - 3} more" if len(group.members) > 3 else ""
    return f"Cannot reset group '{group.name}': it has active members ({who}{more}). Stop them first."


def _resolve_partitions(admin: "AdminClient", wanted: Mapping[str, set[int] | None]) -> set[TopicPartition]:
    topics = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    partitions: set[TopicPartition] = set()
    for name, chosen in wanted.items():
        if name not in topics:
            raise unknown_topic(name)
        existing = set(topics[name].partitions)
        if chosen is not None and not chosen <= existing:
            raise unknown_partition(name, min(chosen - existing), len(existing))
        partitions |= {(name, index) for index in (existing if chosen is None else chosen)}
    return partitions


def _group(name: str, found: Any) -> Group:
    node = found.coordinator
    return Group(
        name=name,
        state=_word(found.state),
        type=_word(found.type),
        assignor=found.partition_assignor or "",
        coordinator=f"{node.id} ({node.host}:{node.port})" if node is not None else "",
        members=tuple(sorted(_member(member) for member in found.members)),
    )


def _member(found: Any) -> Member:
    partitions = found.assignment.topic_partitions if found.assignment else []
    return Member(
        member=found.member_id,
        instance=found.group_instance_id,
        client_id=found.client_id,
        # Kafka renders an address as Java's InetAddress does.
        host=found.host.removeprefix("/"),
        partitions=tuple(sorted((entry.topic, entry.partition) for entry in partitions)),
    )


def _word(state: Any) -> str:
    return str(state.name).lower().replace("_", " ")


def parse_enum(kind: Any, text: str, what: str) -> Any:
    """Return the state or type with this name."""
    names = {_word(entry): entry for entry in kind if entry.name != "UNKNOWN"}
    # Spaces and dashes do not matter, and Kafka's tools write PreparingRebalance.
    by_letters = {word.replace(" ", ""): entry for word, entry in names.items()}
    wanted = re.sub("[ _-]", "", text.lower()).replace("rebalance", "rebalancing")
    if wanted not in by_letters:
        raise ActionError(f"Invalid {what} '{text}': expected one of {', '.join(names)}.")
    return by_letters[wanted]
