"""Java properties files, as Kafka's server.properties is one. No I/O."""

from penstock.cli.errors import CommandError


def parse_properties(text: str) -> dict[str, str]:
    """Read key=value lines; '#' and '!' begin comments, a backslash at the end joins the next line."""
    values: dict[str, str] = {}
    pending = ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = pending + raw.lstrip()
        pending = ""
        if not line or (line[0] in "#!"):
            continue
        if _continues(line):
            pending = line[:-1]
            continue
        name, value = _split(line)
        if not name:
            raise CommandError(f"line {number} '{raw.strip()}' has no name: write key=value")
        values[name] = value
    if pending:
        name, value = _split(pending)
        values[name] = value
    return values


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    for position, character in enumerate(line):
        if character in "=:":
            return line[:position].strip(), _unescape(line[position + 1 :].strip())
    # Java also lets a blank part the two; a name alone has an empty value.
    name, _, value = line.strip().partition(" ")
    return name, _unescape(value.strip())


def _unescape(value: str) -> str:
    return value.replace("\\\\", "\0").replace("\\:", ":").replace("\\=", "=").replace("\0", "\\")
