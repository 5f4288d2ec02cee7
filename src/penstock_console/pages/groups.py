"""Consumer groups: their lag in records and in seconds, its trend, and their members."""

from typing import Any

from penstock_console.clusters import ClusterAccess
from penstock_console.endpoints import Call, Endpoint
from penstock_console.lookup import find_group
from penstock_console.pages.topics import PAGING, SEARCH
from penstock_console.sampler import GroupProgress


def progress(access: ClusterAccess, group: GroupProgress) -> dict[str, Any]:
    """Return the row of a group."""
    ends = access.ends(fresh_s=5.0).latest
    lag = group.lag(ends)
    trend = access.history.trend(f"group.lag:{group.group}")
    return {
        "group": group.group,
        "type": group.type,
        "state": group.state,
        "members": len(group.members),
        "topics": group.topics,
        "lag": lag,
        "seconds": access.history.latest(f"group.seconds:{group.group}") if lag else 0.0,
        "trend": trend,
        "clear_s": lag / -trend if trend is not None and trend < 0 else None,
    }


def list_groups(call: Call) -> dict[str, Any]:
    access = call.access
    wanted = call["search"].lower()
    rows = [progress(access, group) for name, group in sorted(access.groups().items()) if wanted in name.lower()]
    first = (call["page"] - 1) * call["size"]
    return {
        "as_of_ms": access.ends(fresh_s=5.0).at_ms,
        "total": len(rows),
        "page": call["page"],
        "size": call["size"],
        "groups": rows[first : first + call["size"]],
    }


def show_group(call: Call) -> dict[str, Any]:
    access = call.access
    group = find_group(access, call["group"])
    ends = access.ends()
    owners = {place: member for member in group.members for place in member.owned}
    partitions = []
    for place in sorted(group.committed.keys() | owners.keys()):
        committed, end, owner = group.committed.get(place), ends.latest.get(place), owners.get(place)
        lag = None if committed is None or end is None else max(0, end - committed)
        partitions.append(
            {
                "topic": place[0],
                "partition": place[1],
                "committed": committed,
                "end": end,
                "lag": lag,
                "seconds": 0.0 if lag == 0 else _age(access, place, committed, ends.at_ms),
                "client_id": owner.client_id if owner else None,
                "host": owner.host.removeprefix("/") if owner else None,
                "member": owner.member_id if owner else None,
            }
        )
    row = progress(access, group)
    return {
        "as_of_ms": ends.at_ms,
        **{name: row[name] for name in ("group", "type", "state", "lag", "seconds", "trend", "clear_s")},
        "assignor": group.protocol or None,
        "coordinator": group.coordinator,
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client_id": member.client_id,
                "host": member.host.removeprefix("/"),
                "partitions": [f"{topic}-{index}" for topic, index in member.owned],
            }
            for member in group.members
        ],
        "partitions": partitions,
    }


def _age(access: ClusterAccess, place: tuple[str, int], committed: int | None, now_ms: int) -> float | None:
    return None if committed is None else access.history.age_s(place, committed, now_ms)


ENDPOINTS = (
    Endpoint(
        path="groups", doc="Consumer groups with their lag, paged.", read=list_groups, parameters=(SEARCH, *PAGING)
    ),
    Endpoint(path="groups/{group}", doc="Members, partitions and lag of a group.", read=show_group),
)
