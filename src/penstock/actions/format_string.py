"""Format strings of records, with kcat's directives. No I/O.

%t topic, %p partition, %o offset, %k key, %s value, %h headers, %T timestamp in milliseconds, %K and %S sizes of key
and value (-1 for null), %R size of the value as a big-endian int32, %% a percent sign. Escapes: \\n \\r \\t \\0 \\\\
and \\xNN. A null key or value is printed as nothing, as kcat does.
"""

import re
import struct
from collections.abc import Callable
from typing import Final

from penstock.actions.errors import ActionError
from penstock.actions.record_format import LineRecord

Shield = Callable[[bytes], bytes]
Part = Callable[[LineRecord, Shield], bytes]

_TOKEN: Final = re.compile(r"%(.?)|\\(x[0-9A-Fa-f]{2}|.?)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_DIRECTIVES: Final[dict[str, Part]] = {
    "t": lambda record, shield: (record.topic or "").encode(),
    "p": lambda record, shield: b"%d" % _number(record.partition),
    "o": lambda record, shield: b"%d" % _number(record.offset),
    "k": lambda record, shield: shield(record.key or b""),
    "s": lambda record, shield: shield(record.value or b""),
    "h": lambda record, shield: b",".join(
        shield(name.encode()) + b"=" + (b"NULL" if value is None else shield(value)) for name, value in record.headers
    ),
    "T": lambda record, shield: b"%d" % _number(record.timestamp_ms),
    "K": lambda record, shield: b"%d" % _size(record.key),
    "S": lambda record, shield: b"%d" % _size(record.value),
    "R": lambda record, shield: shield(struct.pack(">i", _size(record.value))),
    "%": lambda record, shield: b"%",
}


class FormatString:
    """A parsed format string."""

    def __init__(self, text: str) -> None:
        self._parts = _parse(text)

    def render(self, record: LineRecord, shield: Shield) -> bytes:
        """Render a record. Every field that a producer chose goes through `shield`, the text of the format does not."""
        return b"".join(part if isinstance(part, bytes) else part(record, shield) for part in self._parts)


def _parse(text: str) -> list[bytes | Part]:
    parts: list[bytes | Part] = []
    end = 0
    for found in _TOKEN.finditer(text):
        parts.append(text[end : found.start()].encode())
        parts.append(_directive(text, found[1]) if found[1] is not None else _escape(text, found[2]))
        end = found.end()
    parts.append(text[end:].encode())
    return [part for part in parts if part != b""]


def _directive(text: str, letter: str) -> Part:
    if letter not in _DIRECTIVES:
        raise ActionError(f"Invalid format '{text}': unknown directive '%{letter}'. Use {_names()}.")
    return _DIRECTIVES[letter]


def _escape(text: str, word: str) -> bytes:
    if word.startswith("x") and len(word) == 3:
        return bytes([int(word[1:], 16)])
    if word not in _ESCAPES:
        raise ActionError(f"Invalid format '{text}': unknown escape '\\{word}'. Use \\n, \\r, \\t, \\0, \\\\ or \\xNN.")
    return _ESCAPES[word]


def _names() -> str:
    return ", ".join(f"%{letter}" for letter in _DIRECTIVES)


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)
