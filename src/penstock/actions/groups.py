"""What the group commands know of groups: descriptions, committed offsets, ends and owners.

Asks through the client library's admin client. `lag_rows` and `totals` put the answers together
and do no I/O.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.actions.connection import REQUEST_TIMEOUT_S, explain, wait, wait_all
from penstock.cli.errors import CommandError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Place = tuple[str, int]


class Member(NamedTuple):
    """One consumer of a group."""

    member: str
    instance: str | None
    client_id: str
    host: str
    partitions: tuple[Place, ...]


class Group(NamedTuple):
    """A group as its coordinator describes it."""

    name: str
    state: str
    type: str
    assignor: str
    coordinator: str
    members: tuple[Member, ...]

    @property
    def is_there(self) -> bool:
        return self.state != "dead"


def describe_groups(admin: "AdminClient", names: Sequence[str]) -> list[Group]:
    """Describe groups; one that is not there has the state `dead`, as Kafka says."""
    if not names:
        return []
    futures = admin.describe_consumer_groups(list(dict.fromkeys(names)), request_timeout=REQUEST_TIMEOUT_S)
    return [_group(name, found) for name, found in wait_all(futures).items()]


def demand(groups: Iterable[Group]) -> list[Group]:
    """Return the groups if all are there; else say which are not."""
    found = list(groups)
    missing = [group.name for group in found if not group.is_there]
    if missing:
        raise CommandError(f"There is no group {', '.join(missing)}: 'penstock group list' shows the groups there are.")
    return found


def list_groups(admin: "AdminClient", *, states: Collection[str] = (), types: Collection[str] = ()) -> list[Any]:
    """List the groups of all brokers that are in one of the states and of one of the types; empty means any."""
    from confluent_kafka import ConsumerGroupState, ConsumerGroupType

    filters: dict[str, Any] = {}
    if states:
        filters["states"] = {named(ConsumerGroupState, text, "--state") for text in states}
    if types:
        filters["types"] = {named(ConsumerGroupType, text, "--type") for text in types}
    listed = wait(admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S, **filters), about="groups")
    if listed.errors:
        raise CommandError(explain(listed.errors[0].args[0], about="groups"))
    return sorted(listed.valid or [], key=lambda group: str(group.group_id))


def committed_offsets(admin: "AdminClient", group: str) -> dict[Place, int]:
    """Return every offset that the group has committed."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    future = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_TIMEOUT_S
    )[group]
    found = wait(future, about=group).topic_partitions or []
    return {(entry.topic, entry.partition): entry.offset for entry in found if entry.offset >= 0}


def log_offsets(admin: "AdminClient", places: Collection[Place], spec: Any) -> dict[Place, int | None]:
    """Ask for one offset of each partition; None where there is none or nobody answers."""
    from confluent_kafka import TopicPartition

    if not places:
        return {}
    asked = {TopicPartition(*place): spec for place in places}
    found: dict[Place, int | None] = {}
    for where, future in admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            offset = wait(future, about=f"{where.topic}-{where.partition}").offset
        except CommandError:
            # A partition that was deleted or has no leader still has a row: the dash in it is the news.
            found[where.topic, where.partition] = None
        else:
            found[where.topic, where.partition] = offset if offset >= 0 else None
    return found


def latest_offsets(admin: "AdminClient", places: Collection[Place]) -> dict[Place, int | None]:
    from confluent_kafka.admin import OffsetSpec

    return log_offsets(admin, places, OffsetSpec.latest())


def lag_rows(group: Group, committed: Mapping[Place, int], ends: Mapping[Place, int | None]) -> list[dict[str, Any]]:
    """Return a row for each partition that the group has an offset or an owner for."""
    owners = {place: member for member in group.members for place in member.partitions}
    rows = []
    for place in sorted(committed.keys() | owners.keys()):
        offset, end, owner = committed.get(place), ends.get(place), owners.get(place)
        rows.append(
            {
                "group": group.name,
                "topic": place[0],
                "partition": place[1],
                "committed": offset,
                "end": end,
                # A log that was cut or made anew can end before what was committed.
                "lag": None if offset is None or end is None else max(0, end - offset),
                "client_id": owner.client_id if owner else None,
                "host": owner.host if owner else None,
                "member": owner.member if owner else None,
            }
        )
    return rows


def total(rows: Iterable[Mapping[str, Any]]) -> int:
    """Add up the lags that are known."""
    return sum(row["lag"] or 0 for row in rows)


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
        # Kafka writes an address as Java prints it.
        host=found.host.removeprefix("/"),
        partitions=tuple(sorted((entry.topic, entry.partition) for entry in partitions)),
    )


def _word(state: Any) -> str:
    return str(state.name).lower().replace("_", " ")


def named(kind: Any, text: str, option: str) -> Any:
    """Return the state or type that is meant."""
    names = {_word(entry): entry for entry in kind if entry.name != "UNKNOWN"}
    # Spaces and dashes do not count, and PreparingRebalance is what Kafka's own tools call it.
    by_letters = {word.replace(" ", ""): entry for word, entry in names.items()}
    wished = re.sub("[ _-]", "", text.lower()).replace("rebalance", "rebalancing")
    if wished not in by_letters:
        raise CommandError(f"{option} does not know '{text}': choose one of {', '.join(names)}.")
    return by_letters[wished]
