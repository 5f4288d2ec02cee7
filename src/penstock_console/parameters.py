"""Parameters of a request: declared once, validated here, described by openapi.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock_console.errors import bad_request

TEXT_SIZE_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a query string. Its type is that of the default."""

    name: str
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 2**63 - 1
    repeated: bool = False

    def parse(self, texts: Sequence[str]) -> Any:
        if self.repeated:
            return list(texts)
        if len(texts) > 1:
            raise bad_request(f"Parameter '{self.name}' is given more than once.")
        if not texts or texts[0] == "":
            return self.default
        text = texts[0]
        if len(text) > TEXT_SIZE_MAX:
            raise bad_request(f"Parameter '{self.name}' is longer than {TEXT_SIZE_MAX} characters.")
        if isinstance(self.default, bool):
            return self._boolean(text)
        if isinstance(self.default, int):
            return integer(self.name, text, least=self.least, most=self.most)
        if self.choices and text not in self.choices:
            raise bad_request(f"Invalid {self.name} '{text}': expected one of {', '.join(filter(None, self.choices))}.")
        return text

    def _boolean(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise bad_request(f"Invalid {self.name} '{text}': expected true or false.")
        return text == "true"


def integer(name: str, text: str, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """Parse an integer in a range."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19) or not least <= int(text) <= most:
        raise bad_request(f"Invalid {name} '{text[:40]}': expected an integer from {least} to {most}.")
    return int(text)


def parse_query(declared: Sequence[Parameter], given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a value for every declared parameter; reject others, because a misspelled filter would be ignored."""
    known = {each.name for each in declared}
    unknown = [name for name in given if name not in known]
    if unknown:
        expected = ", ".join(sorted(known)) or "none"
        raise bad_request(f"Unknown parameter '{unknown[0][:100]}': the parameters are {expected}.")
    return {each.name: each.parse(given.get(each.name, ())) for each in declared}


class Arguments:
    """The arguments in the body of a request, with their types checked."""

    def __init__(self, given: Mapping[str, Any], known: Sequence[str]) -> None:
        unknown = [name for name in given if name not in known]
        if unknown:
            raise bad_request(f"Unknown argument '{unknown[0][:100]}': the arguments are {', '.join(known) or 'none'}.")
        self._given = given

    def text(self, name: str, default: str | None = None) -> str:
        found = self._given.get(name)
        if found is None and default is not None:
            return default
        if not isinstance(found, str) or not found:
            raise self._wrong(name, "text")
        return found

    def optional_text(self, name: str) -> str | None:
        return None if self._given.get(name) in (None, "") else self.text(name)

    def optional_integer(self, name: str, *, least: int = 0, most: int = 2**63 - 1) -> int | None:
        found = self._given.get(name)
        if found is None or found == "":
            return None
        if isinstance(found, str):
            return integer(name, found, least=least, most=most)
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise self._wrong(name, f"an integer from {least} to {most}")
        return found

    def integer(self, name: str, *, least: int = 0, most: int = 2**63 - 1) -> int:
        found = self.optional_integer(name, least=least, most=most)
        if found is None:
            raise self._wrong(name, f"an integer from {least} to {most}")
        return found

    def number(self, name: str) -> float | None:
        found = self._given.get(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < 1e18:
            raise self._wrong(name, "a positive number")
        return float(found)

    def flag(self, name: str) -> bool:
        found = self._given.get(name, False)
        if not isinstance(found, bool):
            raise self._wrong(name, "true or false")
        return found

    def texts(self, name: str) -> list[str]:
        found = self._given.get(name) or []
        if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
            raise self._wrong(name, "a list of texts")
        return found

    def items(self, name: str) -> list[Any]:
        found = self._given.get(name) or []
        if not isinstance(found, list):
            raise self._wrong(name, "a list")
        return found

    def mapping(self, name: str) -> dict[str, Any]:
        found = self._given.get(name) or {}
        if not isinstance(found, dict):
            raise self._wrong(name, "an object")
        return found

    def value(self, name: str) -> Any:
        return self._given.get(name)

    def _wrong(self, name: str, expected: str) -> Exception:
        return bad_request(f"Invalid or missing argument '{name}': expected {expected}.")
