"""Bytes of records made safe for a terminal. No I/O.

A control sequence in a record could move the cursor, change the title or the colours, or type into the shell. Bytes
that are not printable text are shown as \\xNN; tabs and newlines are kept.
"""

import re
from typing import Final

# C0 controls but tab and newline, DEL, and C1 controls; also the characters that reorder the text around them.
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")


def escape_for_terminal(data: bytes) -> bytes:
    """Replace every byte that is not part of printable text by \\xNN."""
    if data.isascii() and data.decode("ascii").isprintable():
        return data
    return _UNSAFE.sub(_escape_bytes, data.decode("utf-8", "surrogateescape")).encode("utf-8")


def escape_json_for_terminal(line: bytes) -> bytes:
    """Replace the characters that JSON may contain unescaped, but a terminal would interpret, by \\uNNNN."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", line.decode("utf-8", "replace")).encode("utf-8")


def _escape_bytes(found: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogateescape"))
