"""Share groups: members, start offsets, lag and records in flight."""

import time
from typing import Any

from penstock.actions.errors import ActionError
from penstock.actions.queues import (
    dead_letter_topic,
    describe_queues,
    list_queues,
    queue_partitions,
    records_in_flight,
)
from penstock_console.endpoints import Call, Endpoint


def show_queues(call: Call) -> dict[str, Any]:
    rows = []
    with call.access.open() as cluster:
        for queue in list_queues(cluster):
            lags = [each.lag or 0 for each in queue_partitions(cluster, queue)]
            rows.append({"group": queue.group, "state": queue.state, "members": len(queue.members), "lag": sum(lags)})
    return {"as_of_ms": int(time.time() * 1000), "queues": rows}


def show_queue(call: Call) -> dict[str, Any]:
    name = call["group"]
    problem = None
    in_flight: list[dict[str, Any]] | None = None
    with call.access.open() as cluster:
        (queue,) = describe_queues(cluster, [name])
        partitions = queue_partitions(cluster, queue)
        try:
            letters: str | None = dead_letter_topic(cluster, name)
        except ActionError:
            letters = None
        try:
            in_flight = [
                {key: value for key, value in each._asdict().items() if key != "group"}
                for each in records_in_flight(cluster)
                if each.group == name
            ]
        except ActionError as error:
            problem = str(error)
    return {
        "as_of_ms": int(time.time() * 1000),
        "group": name,
        "state": queue.state,
        "coordinator": queue.coordinator,
        "dead_letters": letters,
        "members": [
            {
                **member._asdict(),
                "host": member.host.removeprefix("/"),
                "partitions": [f"{topic}-{index}" for topic, index in member.partitions],
            }
            for member in queue.members
        ],
        "partitions": [{key: value for key, value in each._asdict().items() if key != "group"} for each in partitions],
        "in_flight": in_flight,
        "in_flight_problem": problem,
    }


ENDPOINTS = (
    Endpoint(path="queues", doc="Share groups with their lag.", read=show_queues),
    Endpoint(path="queues/{group}", doc="Members, partitions and records in flight of a share group.", read=show_queue),
)
