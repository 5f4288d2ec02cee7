"""The broker's options on keeping logs that no topic can override. Only declarations."""

from typing import Final

from penstock.config.option import LONG_MAX, MINUTE_MS, SECOND_MS, Option

STORAGE_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="log.dirs", kind="list", default=None, allow_empty=False,
        doc="The folder that holds the data. `--data` on the command line sets it.",
    ),
    Option(
        name="log.dir", kind="list", default=None, allow_empty=False,
        doc="The folder that holds the data while log.dirs is not set. Kafka's default of /tmp/kafka-logs is not "
        "taken over: data belongs in a folder that somebody chose.",
    ),
    Option(
        name="log.retention.minutes", kind="int", default=None,
        doc="retention.ms in minutes, used while log.retention.ms is not set.",
    ),
    Option(
        name="log.retention.hours", kind="int", default=168,
        doc="retention.ms in hours, used while neither log.retention.ms nor log.retention.minutes is set.",
    ),
    Option(
        name="log.roll.hours", kind="int", default=168, least=1,
        doc="segment.ms in hours, used while log.roll.ms is not set.",
    ),
    Option(
        name="log.roll.jitter.hours", kind="int", default=0, least=0,
        doc="segment.jitter.ms in hours, used while log.roll.jitter.ms is not set.",
    ),
    Option(
        name="log.flush.scheduler.interval.ms", kind="long", default=LONG_MAX,
        doc="flush.ms while log.flush.interval.ms is not set.",
    ),
    Option(
        name="log.flush.offset.checkpoint.interval.ms", kind="int", default=MINUTE_MS, least=0,
        doc="How often the recovery points are written: the offsets up to which a restart need not check the logs.",
    ),
    Option(
        name="log.flush.start.offset.checkpoint.interval.ms", kind="int", default=MINUTE_MS, least=0,
        doc="How often the log start offsets are written.",
    ),
    Option(
        name="log.retention.check.interval.ms", kind="long", default=5 * MINUTE_MS, least=1,
        doc="How often the janitor looks for segments that retention lets go.",
    ),
    Option(
        name="log.initial.task.delay.ms", kind="long", default=30 * SECOND_MS, least=0, internal=True,
        doc="How long after the start the janitor first looks.",
    ),
)  # fmt: skip
