"""Dead letters: the topics that hold them, and the letters grouped by their errors."""

from collections import deque
from typing import Any, Final

from penstock.actions.dead_letters.dead_letter import DeadLetter, Filter
from penstock.actions.dead_letters.replay import GROUP
from penstock.actions.dead_letters.share_letter import TOPIC_PREFIX
from penstock.actions.dead_letters.topics import SUFFIX
from penstock.actions.groups import committed_offsets
from penstock_console.endpoints import Call, Endpoint
from penstock_console.letters import open_letters, read_letters, resolve
from penstock_console.log_reader import age, parse_partitions
from penstock_console.lookup import measure
from penstock_console.parameters import Parameter
from penstock_console.record_view import record_row

COUNT_MAX: Final = 500


def show_topics(call: Call) -> dict[str, Any]:
    """Return a row per dead-letter topic. Letters are counted by offsets, because there may be millions."""
    access = call.access
    names = [name for name in access.metadata().topics if name.endswith(SUFFIX) or name.startswith(TOPIC_PREFIX)]
    offsets, _ = measure(access, names)
    replayed = committed_offsets(access.admin, GROUP) if names else {}
    rows = []
    for name in names:
        own = {place: ends for place, ends in offsets.items() if place[0] == name}
        waiting = (latest - max(earliest, replayed.get(place, 0)) for place, (earliest, latest) in own.items())
        rows.append(
            {
                "topic": name,
                # A share group's dead-letter topic may have letters of several topics.
                "source": name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else None,
                "letters": sum(latest - earliest for earliest, latest in own.values()),
                "not_replayed": sum(max(0, each) for each in waiting),
            }
        )
    return {"topics": rows}


def show_letters(call: Call) -> dict[str, Any]:
    access = call.access
    topic = resolve(access, call["topic"])
    wanted = Filter(
        error=call["error"] or None,
        contains=call["contains"] or None,
        key=call["key"] or None,
        group=call["group"] or None,
    )
    log = open_letters(access, topic, parse_partitions(call["partition"]))
    errors: dict[str, dict[str, Any]] = {}
    newest: deque[DeadLetter] = deque(maxlen=call["count"])
    total = matching = 0
    for letter in read_letters(log, log.earliest, log.latest, Filter()):
        total += 1
        _count(errors, letter)
        if wanted.matches(letter):
            matching += 1
            newest.append(letter)
    letters = sorted(newest, key=lambda letter: age(letter.record), reverse=True)
    return {
        "topic": topic,
        "total": total,
        "matching": matching,
        "ended": "end",
        "errors": sorted(errors.values(), key=lambda row: -row["count"]),
        "letters": [_row(letter) for letter in letters],
    }


def _count(errors: dict[str, dict[str, Any]], letter: DeadLetter) -> None:
    death = letter.death
    if death is None:
        return
    row = errors.setdefault(
        death.error_class,
        {
            "error": death.error_class,
            "count": 0,
            "first_ms": death.first_failure_ms,
            "last_ms": death.last_failure_ms,
            "example": death.error_message,
        },
    )
    row["count"] += 1
    row["first_ms"] = min(row["first_ms"], death.first_failure_ms)
    row["last_ms"] = max(row["last_ms"], death.last_failure_ms)


def _row(letter: DeadLetter) -> dict[str, Any]:
    record, death = letter
    row: dict[str, Any] = {"row": record_row(record)}
    names = ("source", "group", "attempts", "error", "message", "trace", "first_failure_ms", "last_failure_ms")
    if death is None:
        return {**row, **dict.fromkeys(names)}
    source = {"topic": death.topic, "partition": death.partition, "offset": death.offset}
    values = (
        source,
        death.group,
        death.attempts,
        death.error_class,
        death.error_message,
        death.trace,
        death.first_failure_ms,
        death.last_failure_ms,
    )
    return {**row, **dict(zip(names, values, strict=True))}


ENDPOINTS = (
    Endpoint(path="dead-letters", doc="Dead-letter topics.", read=show_topics),
    Endpoint(
        path="dead-letters/{topic}",
        doc="The dead letters of a topic, and how many there are of each error.",
        read=show_letters,
        parameters=(
            Parameter(name="error", default="", doc="Only this error class."),
            Parameter(name="contains", default="", doc="Only letters with this text in the message or the value."),
            Parameter(name="key", default="", doc="Only letters with this key."),
            Parameter(name="group", default="", doc="Only letters of this group."),
            Parameter(name="partition", default="", doc="Only these partitions, separated by commas."),
            Parameter(name="count", default=100, least=1, most=COUNT_MAX, doc="How many letters to return."),
        ),
        contents=True,
        is_slow=True,
    ),
)
