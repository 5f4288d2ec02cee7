"""The value of sasl.jaas.config: `module required name="value" ...;`.

It is data: only the login modules of Kafka's own mechanisms are accepted, and none is ever loaded (Kafka once loaded
any class that was named, CVE-2025-27818). Messages never contain values. Refuses: InvalidConfig.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.model.errors import InvalidConfig

_PACKAGE: Final = "org.apache.kafka.common.security."
MODULES: Final = frozenset({
    f"{_PACKAGE}plain.PlainLoginModule",
    f"{_PACKAGE}scram.ScramLoginModule",
    f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule",
})  # fmt: skip
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s=;"']+)|([=;]))""", re.DOTALL)
_USER_PREFIX: Final = "user_"


class Jaas(NamedTuple):
    module: str
    options: Mapping[str, str]

    @property
    def users(self) -> dict[str, str]:
        """Return the passwords of the users that PLAIN accepts."""
        found = self.options.items()
        return {name.removeprefix(_USER_PREFIX): word for name, word in found if name.startswith(_USER_PREFIX)}

    @property
    def own_login(self) -> tuple[str, str] | None:
        """Return the user and the password of this node, if they are given."""
        user, password = self.options.get("username"), self.options.get("password")
        return None if user is None or password is None else (user, password)


def parse_jaas(text: str, *, option: str = "sasl.jaas.config") -> Jaas:
    """Parse one login module with its options."""
    tokens = _tokens(text, option)
    if len(tokens) < 3 or tokens[-1] != ";" or tokens.count(";") > 1:
        raise InvalidConfig(f'{option} must have the form: module required name="value" ...; with one semicolon')
    module, flag, *rest = tokens[:-1]
    if module not in MODULES:
        raise InvalidConfig(f"{option} names an unknown login module: use one of {', '.join(sorted(MODULES))}")
    if str(flag).lower() not in _FLAGS:
        raise InvalidConfig(f"{option}: the word after the login module must be 'required'")
    if len(rest) % 3:
        raise InvalidConfig(f'{option}: options must have the form name="value"')
    options: dict[str, str] = {}
    for name, equals, value in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if equals != "=" or value in ("=", ";") or name in ("=", ";"):
            raise InvalidConfig(f'{option}: options must have the form name="value"')
        options[str(name)] = str(value)
    return Jaas(str(module), options)


class _Quoted(str):
    """A value in quotes, which is never punctuation."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Quoted) and str.__eq__(self, other)


def _tokens(text: str, option: str) -> list[str]:
    found: list[str] = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidConfig(f"{option} cannot be parsed at position {position}: check its quotation marks")
        position = match.end()
        quoted = match[1] if match[1] is not None else match[2]
        found.append(_Quoted(re.sub(r"\\(.)", r"\1", quoted)) if quoted is not None else match[3] or match[4])
    return found
