"""Masks: fields of JSON values that are hidden in views, downloads, conditions and SQL alike.

A path is `$.card`, `$.customer.name` or `$.items[*].card`. A value of a masked topic that is not JSON is hidden as a
whole, because its fields cannot be found. Values in, values out.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.actions import json_text
from penstock.actions.errors import ActionError
from penstock.actions.record_format import LineRecord

MASKED: Final = "***"
DEAD_LETTER_SUFFIX: Final = ".dlq"
_STEP: Final = re.compile(r"\.([A-Za-z0-9_-]+)|\.\"([^\"]+)\"|\[(\*|\d+)\]|\.(\*)")


def parse_path(text: str) -> json_text.Path:
    """Parse the path of a field; raise ActionError if it is invalid."""
    steps: list[str | int] = []
    at = 1
    while text.startswith("$") and at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            break
        name, quoted, index, star = found.groups()
        steps.append(int(index) if index and index.isdigit() else name or quoted or index or star)
        at = found.end()
    if not steps or at < len(text):
        raise ActionError(f"Invalid path '{text}': expected for example $.card or $.items[*].card.")
    return tuple(steps)


class Mask:
    """The fields of one topic to hide."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = frozenset(map(parse_path, paths))

    def hide(self, value: bytes | None) -> bytes | None:
        """Return a value without the hidden fields."""
        if value is None:
            return None
        try:
            return json_text.replace_at(value.decode(), self._paths, f'"{MASKED}"').encode()
        except ValueError:
            return MASKED.encode()

    def hide_in(self, record: LineRecord) -> LineRecord:
        return record._replace(value=self.hide(record.value))


def find_mask(masks: Mapping[str, Sequence[str]], topic: str) -> Mask | None:
    """Return the mask of a topic. That of a topic applies to its dead-letter topic, too."""
    paths = (*masks.get(topic, ()), *masks.get(topic.removesuffix(DEAD_LETTER_SUFFIX), ()))
    return Mask(paths) if paths else None
