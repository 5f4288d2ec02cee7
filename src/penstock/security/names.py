"""Distinguished names of certificates, and the rules that map them to users.

Kafka's names have Java's RFC 2253 form: the last part first, attribute types without a short name as `OID=#hex`. The
subject is read from the certificate's DER bytes, which OpenSSL has already verified. Rules are matched with RE2, so
that no name takes long. Refuses: InvalidConfig for a rule, InvalidCertificate.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from penstock.model.errors import InvalidConfig, PenstockError

_SHORT: Final = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O",
    "2.5.4.11": "OU", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}  # fmt: skip
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_CODECS: Final = {12: "utf-8", 19: "ascii", 20: "latin-1", 22: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_DEFAULT: Final = "DEFAULT"


class InvalidCertificate(PenstockError):
    """The certificate cannot be decoded."""


class MappingRule(NamedTuple):
    """`RULE:pattern/replacement/[LU]`; without a pattern, DEFAULT."""

    pattern: Any
    replacement: str
    case: str


def parse_rules(text: str) -> tuple[MappingRule, ...]:
    """Return the rules of ssl.principal.mapping.rules, which are separated by commas."""
    text = text.strip()
    rules: list[MappingRule] = []
    position = 0
    while position < len(text):
        if text.startswith(_DEFAULT, position):
            rules.append(MappingRule(None, "", ""))
            position += len(_DEFAULT)
        else:
            match = _RULE.match(text, position)
            if match is None:
                raise _invalid_rule(text[position:])
            rules.append(MappingRule(_compiled(match[1]), _replacement(match[2]), match[3]))
            position = match.end()
        if position < len(text):
            if text[position] != ",":
                raise _invalid_rule(text[position:])
            position += 1
    return tuple(rules)


def map_name(rules: Sequence[MappingRule], name: str) -> str:
    """Return the user of a distinguished name: that of the first rule that matches all of it."""
    for rule in rules:
        if rule.pattern is None:
            return name
        match = rule.pattern.fullmatch(name)
        if match is not None:
            user = _expanded(rule.replacement, match)
            return user.lower() if rule.case == "L" else user.upper() if rule.case == "U" else user
    raise InvalidCertificate("no rule of ssl.principal.mapping.rules matches the name in the certificate")


def _expanded(replacement: str, match: Any) -> str:
    return re.sub(r"\\([0-9])", lambda group: match.group(int(group[1])) or "", replacement)


def _compiled(pattern: str) -> Any:
    import re2  # type: ignore[import-untyped]  # needed only with rules

    try:
        return re2.compile(pattern.replace("\\/", "/"))
    except re2.error:
        raise InvalidConfig(f"ssl.principal.mapping.rules has an invalid pattern: {pattern}") from None


def _replacement(text: str) -> str:
    """Turn Java's `$1` into `\\1`."""
    return re.sub(r"\$([0-9])", r"\\\1", text.replace("\\/", "/"))


def _invalid_rule(text: str) -> InvalidConfig:
    return InvalidConfig(f"ssl.principal.mapping.rules cannot be parsed from here: {text[:40]}")


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in Java's RFC 2253 form."""
    try:
        (_, whole), *_ = _elements(certificate)
        (_, signed), *_ = _elements(whole)
        fields = list(_elements(signed))
        # An explicit version comes first; then the serial number, the algorithm, the issuer and the validity.
        subject = fields[5 if fields[0][0] == 0xA0 else 4]
        return _name(subject[1])
    except (IndexError, ValueError) as problem:
        raise InvalidCertificate(f"cannot decode the certificate: {problem}") from None


def _name(data: memoryview) -> str:
    parts = []
    for tag, rdn in _elements(data):
        if tag != _SET:
            raise ValueError("a part of the name is not a set")
        parts.append("+".join(_attribute(pair) for _, pair in _elements(rdn)))
    return ",".join(reversed(parts))


def _attribute(pair: memoryview) -> str:
    (_, oid_bytes), *_ = elements = list(_elements(pair))
    oid = _oid(bytes(oid_bytes))
    tag, value = elements[1]
    short = _SHORT.get(oid)
    if short is None or tag not in _CODECS:
        encoded = bytes(pair)[_size(pair) :]
        return f"{short or oid}=#{encoded.hex()}"
    return f"{short}={_escape(bytes(value).decode(_CODECS[tag]))}"


def _size(pair: memoryview) -> int:
    """Return the size of the first element with its head."""
    return _head(pair, 0)[2]


def _escape(text: str) -> str:
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", text)
    if escaped.startswith((" ", "#")):
        escaped = "\\" + escaped
    if escaped.endswith(" ") and len(text) > 1:
        escaped = escaped[:-1] + "\\ "
    return escaped


def _oid(data: bytes) -> str:
    first = min(data[0] // 40, 2)
    numbers, number = [first, data[0] - 40 * first], 0
    for byte in data[1:]:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    return ".".join(map(str, numbers))


def _elements(data: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the tag and the content of each element of DER bytes."""
    view, position = memoryview(data), 0
    while position < len(view):
        tag, begin, end = _head(view, position)
        if end > len(view):
            raise ValueError("it is too short")
        yield tag, view[begin:end]
        position = end


def _head(view: memoryview, position: int) -> tuple[int, int, int]:
    """Return the tag of an element, and where its content begins and ends."""
    tag, size, begin = view[position], view[position + 1], position + 2
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4:
            raise ValueError("a length is malformed")
        size = int.from_bytes(view[begin : begin + count])
        begin += count
    return tag, begin, begin + size
