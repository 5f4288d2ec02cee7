"""Parser for Kafka's server.properties, which has the format of Java properties files.

A line is `name=value`, `name: value` or `name value`; `#` and `!` start a comment; a backslash
at the end joins lines, and elsewhere starts an escape. If a name occurs more than once, the last one
wins. settings.py interprets the names and values. A malformed escape raises StartupError.
"""

import re
from typing import Final

from penstock.model.errors import StartupError

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{0,4}|.|$)")


def parse_properties(text: str) -> dict[str, str]:
    """Return the names and values of a properties file."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        found[_unescape(name)] = _unescape(value)
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    unfinished: str | None = None
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if unfinished is None and (not line or line[0] in "#!"):
            continue
        line = (unfinished or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            unfinished = line[:-1]
        else:
            unfinished = None
            lines.append(line)
    if unfinished:
        lines.append(unfinished)
    return lines


def _split(line: str) -> tuple[str, str]:
    """Split a line at the first separator that is not escaped."""
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANKS:
        position += 2 if line[position] == "\\" else 1
    value = line[position:].lstrip(_BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANKS)
    return line[:position], value


def _unescape(text: str) -> str:
    return _ESCAPED.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[:1] != "u":
        return _ESCAPES.get(escape, escape)
    if len(escape) != 5:
        raise StartupError(f"Cannot parse the properties file: malformed Unicode escape {match[0]}")
    return chr(int(escape[1:], 16))
