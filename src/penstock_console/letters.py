"""Dead letters of a topic within fixed ranges of offsets, so that a plan and its execution read the same ones."""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from penstock.actions.dead_letters.dead_letter import DeadLetter, Filter, parse_dead_letter
from penstock.actions.errors import ActionError
from penstock_console.log_reader import Log, Offsets, open_log, read_range
from penstock_console.lookup import DEAD_LETTER_SUFFIX, find_topic

if TYPE_CHECKING:
    from penstock_console.clusters import ClusterAccess

READ_S: Final = 20.0
LETTERS_MAX: Final = 100_000


def resolve(access: "ClusterAccess", name: str) -> str:
    """Return the dead-letter topic of a source topic, or the topic itself."""
    topics = access.metadata().topics
    if not name.endswith(DEAD_LETTER_SUFFIX) and name + DEAD_LETTER_SUFFIX in topics:
        return name + DEAD_LETTER_SUFFIX
    return find_topic(access, name).name


def open_letters(access: "ClusterAccess", topic: str, partitions: list[int] | None) -> Log:
    return open_log(access, topic, partitions, "read_committed")


def read_letters(
    log: Log, starts: Mapping[int, int], ends: Offsets, wanted: Filter, *, is_masked: bool = True
) -> Iterator[DeadLetter]:
    """Yield the letters of the ranges that match; raise if there are too many to read.

    Letters that are sent back are not masked, but a filter sees the masked ones in any case: otherwise it could be used
    to guess what the mask hides.
    """
    deadline = time.monotonic() + READ_S
    count = 0
    hide = log.hide
    if not is_masked:
        log = log._replace(hide=lambda record: record)
    for index, end in sorted(ends.items()):
        for record in read_range(log, index, max(starts[index], log.earliest[index]), end):
            count += 1
            if count > LETTERS_MAX or time.monotonic() > deadline:
                raise ActionError(
                    f"Topic '{log.topic}' has too many dead letters to read at once. Choose a partition or a later "
                    "position."
                )
            if wanted.matches(parse_dead_letter(hide(record))):
                yield parse_dead_letter(record)
