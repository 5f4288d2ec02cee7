"""Rates and lags over time."""

from typing import Any, Final

from penstock_console.endpoints import Call, Endpoint
from penstock_console.errors import bad_request
from penstock_console.history import WINDOWS
from penstock_console.parameters import Parameter

SERIES_MAX: Final = 20
KINDS: Final = ("cluster.rate", "topic.rate", "group.lag", "group.rate", "group.seconds")


def read_history(call: Call) -> dict[str, Any]:
    series = list(dict.fromkeys(call["series"]))
    if not series or len(series) > SERIES_MAX:
        raise bad_request(f"Give 1 to {SERIES_MAX} series.")
    for name in series:
        if name.partition(":")[0] not in KINDS:
            raise bad_request(
                f"Unknown series '{name[:100]}': expected one of {', '.join(KINDS)}, and a name after ':'."
            )
    step_ms, times, values = call.access.history.read(series, call["window"])
    return {"window": call["window"], "step_ms": step_ms, "times_ms": times, "series": values}


ENDPOINTS = (
    Endpoint(
        path="history",
        doc="Rates and lags over time.",
        read=read_history,
        parameters=(
            Parameter(name="series", default="", repeated=True, doc="A series, for example group.lag:billing."),
            Parameter(name="window", default="1h", choices=tuple(WINDOWS), doc="The time to cover."),
        ),
    ),
)
