"""Sending dead letters back to their topics."""

from itertools import islice
from typing import Any, Final

from penstock.actions.dead_letters.dead_letter import DeadLetter, Filter, dead_letter_row
from penstock.actions.dead_letters.replay import ReplaySender, commit_replay_position, replay_position
from penstock.actions.plurals import count_of
from penstock.actions.positions import parse_position
from penstock_console.jobs import Job
from penstock_console.letters import open_letters, read_letters, resolve
from penstock_console.log_reader import start_of
from penstock_console.plans import Change, Context, Outcome, Plan

NEW: Final = "new"
COLUMNS: Final = ["partition", "offset", "source", "attempts", "error", "message", "key"]
FILTERS: Final = ("error", "contains", "key")


def plan_replay(context: Context) -> Plan:
    access, arguments, memory = context.access, context.arguments, context.memory
    topic = resolve(access, arguments.text("topic"))
    partition = arguments.optional_integer("partition", most=2**31 - 1)
    error, contains, key = (arguments.optional_text(name) for name in FILTERS)
    wanted = Filter(error, contains, key)
    start, to, rate = arguments.text("from", NEW), arguments.optional_text("to"), arguments.number("rate")
    count, keep = arguments.optional_integer("count", least=1), arguments.flag("keep_timestamps")
    log = open_letters(access, topic, None if partition is None else [partition])
    if "starts" not in memory:
        # The ranges are fixed when the plan is shown: later letters are not sent.
        if start == NEW:
            done = replay_position(access.connection, topic, list(log.latest))
            memory["starts"] = {index: max(first, done.get(index, first)) for index, first in log.earliest.items()}
        else:
            memory["starts"] = start_of(log, parse_position(start, now_ms=context.now_ms))
        memory["ends"] = dict(log.latest)
    found = list(islice(read_letters(log, memory["starts"], memory["ends"], wanted, is_masked=False), count))
    letters = [letter for letter in found if letter.death is not None]

    def execute(job: Job) -> Outcome:
        sender = ReplaySender(access.connection, to=to, keep_timestamps=keep, rate=rate)
        job.total = len(letters)
        try:
            for letter in found:
                if job.stop_requested.is_set():
                    break
                _send(sender, letter)
                job.done = sender.sent
        finally:
            sender.finish()
            job.done = sender.acknowledged
        if start == NEW and wanted.matches_all:
            commit_replay_position(access.connection, topic, sender.positions())
        sender.raise_if_failed()
        missing = f" {sender.missing} point to records that no longer exist." if sender.missing else ""
        return Outcome(f"Sent {count_of(sender.acknowledged, 'letter')} of {topic} back.{missing}")

    return Plan(
        title=f"Send {count_of(len(letters), 'letter')} of {topic} back",
        command=_command(topic, context, wanted),
        columns=COLUMNS,
        rows=[_row(letter) for letter in letters],
        state=[to, rate, keep],
        execute=execute,
        warnings=_warnings(letters, found, to),
        blocked=None if letters else "No dead letter matches.",
    )


def _send(sender: ReplaySender, letter: DeadLetter) -> None:
    if letter.death is None:
        sender.skip(letter)
    else:
        sender.send(letter)


def _row(letter: DeadLetter) -> dict[str, Any]:
    row = dead_letter_row(letter)
    return {column: row.get(column) for column in COLUMNS}


def _warnings(letters: list[DeadLetter], found: list[DeadLetter], to: str | None) -> list[str]:
    warnings = ["The letters stay in the dead-letter topic."]
    if len(found) > len(letters):
        skipped = count_of(len(found) - len(letters), "record")
        warnings.append(f"Skips {skipped} without the headers of a dead letter.")
    if to is not None:
        warnings.append(f"All letters are sent to topic {to}, not to their own topics.")
    return warnings


def _command(topic: str, context: Context, wanted: Filter) -> list[str]:
    arguments = context.arguments
    command = ["penstock", "dlq", "replay", topic]
    for name in FILTERS:
        if (value := getattr(wanted, name)) is not None:
            command += [f"--{name}", value]
    for name in ("partition", "from", "to", "rate", "count"):
        if (given := arguments.value(name)) not in (None, ""):
            command += [f"--{name}", str(given)]
    return [*command, *(["--keep-timestamps"] if arguments.flag("keep_timestamps") else []), "--execute"]


CHANGES = (
    Change(
        action="dead-letters.replay",
        doc="Send dead letters back.",
        arguments=("topic", *FILTERS, "partition", "from", "to", "rate", "count", "keep_timestamps"),
        plan=plan_replay,
        is_long=True,
    ),
)
