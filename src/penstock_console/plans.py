"""Plans: changes that were shown to a user and may be executed once, exactly as shown.

A plan is made from the arguments and the state of the cluster. Before it is executed, it is made again with the same
arguments; if the result differs from what was shown, nothing is executed.
"""

import hashlib
import json
import secrets
import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock_console.errors import ApiError
from penstock_console.parameters import Arguments

if TYPE_CHECKING:
    from penstock_console.clusters import ClusterAccess
    from penstock_console.jobs import Job

PLANS_MAX: Final = 200
LIFETIME_S: Final = 600.0
ROWS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Context:
    """What a plan is made with. `memory` keeps what must be the same when the plan is made again."""

    access: "ClusterAccess"
    arguments: Arguments
    now_ms: int
    memory: dict[str, Any] = field(default_factory=dict)


class Outcome(NamedTuple):
    message: str
    result: dict[str, Any] = {}  # noqa: RUF012 - never changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A change that has not been executed. `state` is what it depends on besides the rows."""

    title: str
    command: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    execute: "Callable[[Job], Outcome]"
    state: Any = None
    volatile: Sequence[str] = ()
    """Columns that may change without making the plan out of date."""
    warnings: Sequence[str] = ()
    blocked: str | None = None
    danger: bool = False

    def fingerprint(self) -> str:
        rows = [{name: value for name, value in row.items() if name not in self.volatile} for row in self.rows]
        shown = [self.title, list(self.command), rows, self.state, self.blocked]
        return hashlib.sha256(json.dumps(shown, default=str, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A kind of change. Its secret arguments are not logged."""

    action: str
    doc: str
    arguments: tuple[str, ...]
    plan: Callable[[Context], Plan]
    secrets: tuple[str, ...] = ()
    is_long: bool = False
    """Whether it runs as a job."""


class Shown(NamedTuple):
    """A plan as it was shown."""

    change: Change
    given: Mapping[str, Any]
    context: Context
    fingerprint: str
    expires_at: float


class Plans:
    """The plans that may be executed. The oldest are forgotten if there are too many."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._by_digest: OrderedDict[str, Shown] = OrderedDict()

    def make(
        self, change: Change, access: "ClusterAccess", given: Mapping[str, Any], memory: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Plan a change, and return the plan as the API shows it."""
        context = Context(
            access, Arguments(given, change.arguments), int(time.time() * 1000), memory if memory is not None else {}
        )
        return self._show(change, given, context, change.plan(context))

    def _show(self, change: Change, given: Mapping[str, Any], context: Context, plan: Plan) -> dict[str, Any]:
        digest = None
        if plan.blocked is None:
            fingerprint = plan.fingerprint()
            digest = hashlib.sha256((fingerprint + secrets.token_hex(16)).encode()).hexdigest()
            with self._lock:
                self._by_digest[digest] = Shown(change, given, context, fingerprint, self._now() + LIFETIME_S)
                while len(self._by_digest) > PLANS_MAX:
                    self._by_digest.popitem(last=False)
        return {
            "action": change.action,
            "digest": digest,
            "expires_ms": int((time.time() + LIFETIME_S) * 1000),
            "title": plan.title,
            "command": render_command(plan.command, context.access),
            "columns": list(plan.columns),
            "rows": list(plan.rows[:ROWS_MAX]),
            "more_rows": max(0, len(plan.rows) - ROWS_MAX),
            "warnings": list(plan.warnings),
            "blocked": plan.blocked,
            "danger": plan.danger,
        }

    def take(self, change: Change, access: "ClusterAccess", digest: str) -> tuple[Shown, Plan]:
        """Return a plan to execute; raise ApiError if it was not shown, was executed, or is out of date."""
        with self._lock:
            shown = self._by_digest.get(digest)
            if shown is None or shown.change is not change or shown.context.access is not access:
                shown = None
            else:
                del self._by_digest[digest]
        if shown is None or shown.expires_at < self._now():
            raise ApiError(
                409,
                "PLAN_UNKNOWN",
                "The plan was executed already, has expired, or was made for something else.",
                "Make a new plan. Nothing was changed.",
            )
        access.changed()
        plan = change.plan(shown.context)
        if plan.fingerprint() != shown.fingerprint:
            fresh = shown.context.memory if plan.blocked is None else {}
            again = self._show(
                change, shown.given, Context(access, shown.context.arguments, shown.context.now_ms, fresh), plan
            )
            raise ApiError(
                409,
                "PLAN_STALE",
                "The cluster has changed since the plan was shown.",
                "Check the new plan. Nothing was changed.",
                plan=again,
            )
        return shown, plan


class Shell(str):
    """A part of a command line that is quoted already."""


AND: Final = Shell("&&")
"""What separates two commands."""


def render_command(words: Sequence[str], access: "ClusterAccess") -> str:
    """Return a command line, each command with the address of the cluster. A word may be a `Shell` fragment."""
    address = f"--bootstrap {shlex.quote(access.connection.bootstrap)}"
    quoted = [
        f"{address} {AND}" if word is AND else word if isinstance(word, Shell) else shlex.quote(word) for word in words
    ]
    return " ".join([*quoted, address])
