"""Regular expressions of clients: RE2's syntax, with limits on what an expression may cost.

RE2 matches in time that is proportional to the name, but compiling an expression can take a second, and finding what
its groups match can take twenty seconds for a name of 250 characters. Compiling holds the interpreter lock, so a
thread would not help. So the compiled program has a maximum size, long expressions may have few operators (most are
lists of names: `orders|payments|...`), and groups are not captured. Refuses: ValueError with the reason.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

import re2  # type: ignore[import-untyped]

SIZE_MAX: Final = 20_000
"""In characters."""
SHORT_SIZE_MAX: Final = 1_000
"""Up to this size the number of operators does not matter."""
OPERATORS_MAX: Final = 50
DOTS_MAX: Final = 3_000
"""Limits of longer expressions: 10,000 question marks take a quarter of a second, a dot a microsecond."""
_OPERATOR: Final = re.compile(r"[*+?{\[]|\\[^.\-]|[^\x00-\x7f]")
UNICODE_CLASSES_MAX: Final = 6
r"""How often \p or \P may occur: each takes a tenth of a millisecond to parse, and a thousand instructions."""
PROGRAM_MAX: Final = 256 * 1024
LONG_PROGRAM_MAX: Final = 512 * 1024
"""The memory in which RE2 must be able to compile it; a long expression may list 500 names with five dots each."""
MEMORY_MAX: Final = 2 * 1024 * 1024
"""For the program and what RE2 caches while it matches. Without room for the cache it is a hundred times slower."""
STORED_MEMORY_MAX: Final = 8 * 1024 * 1024
"""For expressions that an earlier release accepted: RE2's default."""


class Pattern(NamedTuple):
    regexp: "re2._Regexp"

    def matches(self, name: str) -> bool:
        """Return whether the expression matches the whole name. Releases the interpreter lock."""
        return self.regexp.fullmatch(name) is not None

    @property
    def instruction_count(self) -> int:
        """Return the size of the program: the time of a match is at most proportional to it."""
        size: int = self.regexp.programsize
        return size


@lru_cache(maxsize=1_000)
def check(text: str) -> None:
    """Raise ValueError for an expression that is invalid, or expensive."""
    _check_text(text)
    _compiled(text, PROGRAM_MAX if len(text) <= SHORT_SIZE_MAX else LONG_PROGRAM_MAX)


@lru_cache(maxsize=128)
def compiled(text: str) -> Pattern:
    """Compile an expression that was checked, maybe by an earlier release with fewer limits. Raises ValueError."""
    try:
        return _compiled(text, MEMORY_MAX)
    except ValueError:
        return _compiled(text, STORED_MEMORY_MAX)


def _check_text(text: str) -> None:
    problem = _size_problem(text)
    if problem is None and len(text) > SHORT_SIZE_MAX:
        problem = _long_text_problem(text.replace("(?:", "("))
    if problem is not None:
        raise ValueError(f"pattern too large - it has {problem}")


def _size_problem(text: str) -> str | None:
    if len(text) > SIZE_MAX:
        return f"more than {SIZE_MAX} characters"
    if text.count("\\p") + text.count("\\P") > UNICODE_CLASSES_MAX:
        return f"more than {UNICODE_CLASSES_MAX} Unicode classes"
    return None


def _long_text_problem(plain: str) -> str | None:
    """Return what makes a long expression expensive; `plain` is without the marks of groups that capture nothing."""
    if "(?" in plain:
        return f"more than {SHORT_SIZE_MAX} characters, and flags or named groups"
    if sum(1 for _ in _OPERATOR.finditer(plain)) > OPERATORS_MAX:
        return f"more than {SHORT_SIZE_MAX} characters, and more than {OPERATORS_MAX} operators"
    if plain.count(".") > DOTS_MAX:
        return f"more than {DOTS_MAX} dots"
    return None


def _compiled(text: str, memory_max: int) -> Pattern:
    options = re2.Options()
    # Otherwise the library logs each invalid expression to stderr.
    options.log_errors = False
    options.never_capture = True
    options.max_mem = memory_max
    try:
        return Pattern(re2.compile(text, options))
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
