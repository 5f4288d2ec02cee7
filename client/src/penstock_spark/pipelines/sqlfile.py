"""Parser of the SQL of declarative pipelines: splits statements and extracts definitions; Spark parses the queries.

Supported: CREATE [OR REFRESH] STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW, FLOW ... AS INSERT INTO, SET.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock_client.errors import PenstockClientError

_NAME: Final = r"(?P<name>[`\w.]+)"
_CLAUSES: Final = (
    r"(?:\s+USING\s+(?P<format>\w+)|\s+COMMENT\s+(?:'[^']*'|\"[^\"]*\")|\s+TBLPROPERTIES\s*\([^)]*\)"
    r"|\s+PARTITIONED\s+BY\s*\([^)]*\)|\s+CLUSTER\s+BY\s*\([^)]*\))*"
)
_AS: Final = r"(?:\s+AS\s+(?P<query>.*))?$"
_FORMS: Final = {
    "table": rf"CREATE\s+(?:OR\s+REFRESH\s+)?STREAMING\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}{_CLAUSES}{_AS}",
    "view": rf"CREATE\s+(?:OR\s+REFRESH\s+)?MATERIALIZED\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}{_CLAUSES}{_AS}",
    "temporary": rf"CREATE\s+TEMP(?:ORARY)?\s+VIEW\s+{_NAME}(?:\s+COMMENT\s+'[^']*')?{_AS}",
    "flow": rf"CREATE\s+FLOW\s+{_NAME}(?:\s+COMMENT\s+'[^']*')?\s+AS\s+INSERT\s+INTO\s+(?P<target>[`\w.]+)"
    r"(?:\s+BY\s+NAME)?\s+(?P<query>.*)$",
    "set": r"SET\s+(?P<name>[\w.`]+)\s*=\s*(?P<query>.*)$",
}
# A quoted string, a comment, or the end of a statement, whichever comes first.
_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|;", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Definition:
    """One statement; `kind` is a key of the patterns above."""

    kind: str
    name: str
    query: str | None
    target: str | None = None
    format: str | None = None


def definitions(text: str, file: str) -> Iterator[Definition]:
    for statement in statements(text):
        yield _read(statement, file)


def statements(text: str) -> list[str]:
    """Split at semicolons outside quotes and comments; comments are dropped."""
    parts: list[str] = [""]
    at = 0
    for match in _TOKEN.finditer(text):
        parts[-1] += text[at : match.start()]
        token, at = match.group(), match.end()
        if token == ";":
            parts.append("")
        elif token.startswith(("--", "/*")):
            parts[-1] += " "
        else:
            parts[-1] += token
    parts[-1] += text[at:]
    return [part.strip() for part in parts if part.strip()]


def _read(statement: str, file: str) -> Definition:
    for kind, form in _FORMS.items():
        match = re.match(form, statement, re.IGNORECASE | re.DOTALL)
        if match is not None:
            found = match.groupdict()
            if kind in ("view", "temporary") and not found["query"]:
                raise PenstockClientError(f"{file}: {found['name']} has no query: write ... AS SELECT ...")
            target = found.get("target")
            return Definition(
                kind,
                found["name"].replace("`", ""),
                found["query"],
                target.replace("`", "") if target else None,
                found.get("format"),
            )
    start = " ".join(statement.split())[:80]
    raise PenstockClientError(
        f"{file}: the statement '{start}' is not allowed in a pipeline. Use CREATE STREAMING TABLE, MATERIALIZED VIEW, "
        "TEMPORARY VIEW or FLOW, and SET."
    )
