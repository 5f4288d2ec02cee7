"""The list of topics and the page of one topic."""

from typing import Any, Final

from penstock_console.clusters import ClusterAccess, Topic
from penstock_console.endpoints import Call, Endpoint
from penstock_console.lookup import DEAD_LETTER_SUFFIX, find_topic, measure
from penstock_console.parameters import Parameter

PAGE_SIZE_MAX: Final = 500
PAGING: Final = (
    Parameter(name="page", default=1, least=1, most=1_000_000, doc="Page, from 1."),
    Parameter(name="size", default=50, least=1, most=PAGE_SIZE_MAX, doc="Rows per page."),
)
SEARCH: Final = Parameter(name="search", default="", doc="Only names that contain this text.")


def list_topics(call: Call) -> dict[str, Any]:
    access = call.access
    metadata = access.metadata()
    wanted = call["search"].lower()
    topics = [
        topic
        for topic in metadata.topics.values()
        if wanted in topic.name.lower()
        and (call["internal"] or not topic.is_internal)
        and (not call["state"] or getattr(topic, call["state"]))
    ]
    key, is_descending = call["sort"], call["order"] == "desc"
    topics.sort(key=lambda topic: topic.name)
    if key == "rate":
        topics.sort(key=lambda topic: rate(access, topic.name) or 0.0, reverse=is_descending)
    elif key == "partitions":
        topics.sort(key=lambda topic: len(topic.partitions), reverse=is_descending)
    elif key == "replication_factor":
        topics.sort(key=lambda topic: topic.replication_factor, reverse=is_descending)
    elif is_descending:
        topics.reverse()
    first = (call["page"] - 1) * call["size"]
    return {
        "as_of_ms": metadata.as_of_ms,
        "total": len(topics),
        "page": call["page"],
        "size": call["size"],
        "topics": _rows(access, topics[first : first + call["size"]]),
    }


def _rows(access: ClusterAccess, topics: list[Topic]) -> list[dict[str, Any]]:
    offsets, sizes = measure(access, [topic.name for topic in topics])
    return [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": topic.replication_factor,
            "internal": topic.is_internal,
            "offline": topic.offline,
            "under_replicated": topic.under_replicated,
            "offsets": _total(topic, {place: latest - earliest for place, (earliest, latest) in offsets.items()}),
            "bytes": _total(topic, {place: found[0] for place, found in sizes.items()}),
            "rate": rate(access, topic.name),
        }
        for topic in topics
    ]


def _total(topic: Topic, values: dict[tuple[str, int], int]) -> int | None:
    """Add up the values of a topic; None if there are none."""
    found = [values[topic.name, each.number] for each in topic.partitions if (topic.name, each.number) in values]
    return sum(found) if found else None


def rate(access: ClusterAccess, topic: str) -> float | None:
    return access.history.latest(f"topic.rate:{topic}")


def show_topic(call: Call) -> dict[str, Any]:
    access, name = call.access, call["topic"]
    topic = find_topic(access, name)
    offsets, sizes = measure(access, [name])
    partitions = []
    for each in topic.partitions:
        earliest, latest = offsets.get((name, each.number), (None, None))
        partitions.append(
            {
                "partition": each.number,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "replicas": each.replicas,
                "isr": each.isr,
                "offline_replicas": each.offline,
                "earliest": earliest,
                "latest": latest,
                "offsets": None if latest is None or earliest is None else latest - earliest,
                "bytes": sizes[name, each.number][0] if (name, each.number) in sizes else None,
            }
        )
    metadata = access.metadata()
    return {
        "as_of_ms": metadata.as_of_ms,
        "topic": name,
        "topic_id": topic.topic_id,
        "internal": topic.is_internal,
        "masked": list(access.masks.get(name, ())),
        "rate": rate(access, name),
        "bytes": sum(row["bytes"] or 0 for row in partitions),
        "partitions": partitions,
        "groups": _groups(access, name),
        "dead_letters": name + DEAD_LETTER_SUFFIX if name + DEAD_LETTER_SUFFIX in metadata.topics else None,
    }


def _groups(access: ClusterAccess, topic: str) -> list[dict[str, Any]]:
    ends = access.ends(fresh_s=5.0).latest
    found = []
    for group in access.groups(fresh_s=5.0).values():
        if topic in group.topics:
            own = {place: offset for place, offset in group.committed.items() if place[0] == topic}
            lag = group._replace(committed=own).lag(ends)
            found.append({"group": group.group, "state": group.state, "lag": lag})
    return found


ENDPOINTS = (
    Endpoint(
        path="topics",
        doc="Topics, paged.",
        read=list_topics,
        parameters=(
            SEARCH,
            Parameter(name="internal", default=False, doc="Include internal topics."),
            Parameter(
                name="sort",
                default="name",
                choices=("name", "partitions", "replication_factor", "rate"),
                doc="Column to sort by.",
            ),
            Parameter(name="order", default="asc", choices=("asc", "desc"), doc="Order."),
            Parameter(
                name="state",
                default="",
                choices=("offline", "under_replicated"),
                doc="Only topics with such partitions.",
            ),
            *PAGING,
        ),
    ),
    Endpoint(path="topics/{topic}", doc="Partitions, replicas, offsets, sizes and groups of a topic.", read=show_topic),
)
