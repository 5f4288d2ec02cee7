"""JSON as text: the positions of fields, indentation and replacements that leave every other character as it is.

Parsing and writing JSON again would change numbers: 1.10 becomes 1.1, and a browser rounds 2^63-1. No I/O.
"""

import json
import re
from collections.abc import Collection, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final, NamedTuple

INDENT_MAX: Final = 20
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_TOKEN: Final = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)', re.DOTALL)
_scan_value = json.JSONDecoder().scan_once  # type: ignore[attr-defined]

Path = tuple[str | int, ...]


class NotJson(ValueError):
    """The text is not JSON."""


class Member(NamedTuple):
    """A member of an object or array, and where its value is."""

    key: str | int
    start: int
    end: int


def check(text: str) -> int:
    """Return the position of the only value in a text; raise NotJson if there is none or there are several."""
    start = _skip(text, 0)
    if _skip(text, _value_end(text, start)) != len(text):
        raise NotJson
    return start


def is_document(text: str) -> bool:
    """Return whether a text is a JSON object or array. A number or word alone is more likely plain text."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        check(text)
    except NotJson:
        return False
    return True


def members(text: str, start: int) -> Iterator[Member]:
    """Yield the members of the object or array at a position, which is known to be valid; nothing for other values."""
    opening = text[start]
    if opening not in "{[":
        return
    at, index = _skip(text, start + 1), 0
    while text[at] not in "}]":
        key: str | int = index
        if opening == "{":
            key, at = scanstring(text, at + 1, False)
            at = _skip(text, _skip(text, at) + 1)
        end = _value_end(text, at)
        yield Member(key, at, end)
        at, index = _skip(text, end), index + 1
        if text[at] == ",":
            at = _skip(text, at + 1)


def fields(text: str) -> dict[str, str] | None:
    """Return the fields of an object as text: strings without quotes, other values as they are written.

    None if the text is not an object.
    """
    try:
        start = check(text)
    except NotJson:
        return None
    if text[start] != "{":
        return None
    return {str(key): shown(text, begin, end) for key, begin, end in members(text, start)}


def shown(text: str, start: int, end: int) -> str:
    """Return a value as text: a string without its quotes, another value as it is written."""
    return str(scanstring(text, start + 1, False)[0]) if text[start] == '"' else text[start:end]


def replace_at(text: str, paths: Collection[Path], by: str) -> str:
    """Replace the values at these paths; `*` in a path stands for any key or index. Raises NotJson."""
    spans = sorted(span for path in paths for span in _find(text, check(text), None, path))
    parts, at = [], 0
    for start, end in spans:
        # A value inside a replaced one is gone already.
        if start >= at:
            parts += [text[at:start], by]
            at = end
    return "".join([*parts, text[at:]])


def _find(text: str, start: int, end: int | None, path: Path) -> Iterator[tuple[int, int]]:
    if not path:
        yield start, _value_end(text, start) if end is None else end
        return
    for member in members(text, start):
        if path[0] in ("*", member.key):
            yield from _find(text, member.start, member.end, path[1:])


def indent(text: str) -> str:
    """Return valid JSON, or the beginning of it, with a line per value. Digits and strings stay as they are.

    Lines are indented by at most INDENT_MAX levels: the spaces of deeply nested brackets would take gigabytes.
    """
    parts: list[str] = []
    depth, at, previous = 0, 0, ""
    while (found := _TOKEN.match(text, at)) is not None:
        token = found[1]
        if token in ("}", "]"):
            depth = max(0, depth - 1)
            if previous not in ("{", "["):
                parts.append("\n" + "  " * min(depth, INDENT_MAX))
        elif previous in ("{", "[", ","):
            parts.append("\n" + "  " * min(depth, INDENT_MAX))
        parts.append(": " if token == ":" else token)
        if token in ("{", "["):
            depth += 1
        at, previous = found.end(), token
    return "".join([*parts, text[at:].strip()])


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "the pattern matches the empty text"
    return found.end()


def _value_end(text: str, start: int) -> int:
    try:
        return int(_scan_value(text, start)[1])
    except (ValueError, StopIteration, RecursionError):
        raise NotJson from None
