"""Errors of the API: a status, a code, a sentence and a hint; and their conversion from errors of actions."""

from typing import Any, Final

from penstock.actions.errors import CONNECTION_REFUSED, TIMED_OUT, TRANSPORT, UNKNOWN_HOST, ActionError, ActionErrors
from penstock.model.errors import PenstockError
from penstock.sqlview.errors import QueryError, TooManyQueries
from penstock_client.errors import NAMES, BrokerError, PenstockClientError

_UNREACHABLE: Final = frozenset({CONNECTION_REFUSED, UNKNOWN_HOST, TRANSPORT, "_ALL_BROKERS_DOWN", "_RESOLVE"})
_LATE: Final = frozenset({TIMED_OUT, "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT", "_TIMED_OUT_QUEUE"})
_UNKNOWN: Final = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PART",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "_UNKNOWN_TOPIC",
        "_UNKNOWN_PARTITION",
        "GROUP_ID_NOT_FOUND",
        "UNKNOWN_NODE",
        "UNKNOWN_USER",
        "NO_DEAD_LETTER_TOPIC",
        "NO_SUCH_TRANSACTION",
        "TRANSACTIONAL_ID_NOT_FOUND",
    }
)
_HINTS: Final = {
    CONNECTION_REFUSED: "Check that the cluster is running. This page continues when it is.",
    UNKNOWN_HOST: "Check the address with which the console was started.",
    TRANSPORT: "Check that the cluster is running. This page continues when it is.",
    "TOPIC_ALREADY_EXISTS": "Choose another name.",
    "TOPIC_EXCEPTION": "Use at most 249 letters, digits, '.', '_' and '-'.",
    "INVALID_REPLICATION_FACTOR": "Use a replication factor no higher than the number of brokers.",
    "INVALID_PARTITIONS": "Give the new total number of partitions; it must be higher than the current one.",
    "NO_COMMITTED_OFFSETS": "Name the topics to reset.",
    "NO_METRICS_LISTENER": "Start the brokers with --metrics PORT.",
    "NON_EMPTY_GROUP": "Stop the consumers of the group first.",
    "SECURITY_DISABLED": "Start the broker with --secure, or set authorizer.class.name.",
    "MSG_SIZE_TOO_LARGE": "Raise max.message.bytes of the topic, or send a smaller record.",
}


class ApiError(Exception):
    """An error that the API returns as JSON."""

    def __init__(self, status: int, code: str, message: str, hint: str | None = None, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.hint = hint
        self.more = more

    def content(self) -> dict[str, Any]:
        """Return the content of the field `error`."""
        return {"code": self.code, "message": str(self), "hint": self.hint, **self.more}


def bad_request(message: str, hint: str | None = None) -> ApiError:
    return ApiError(400, "INVALID_REQUEST", message, hint)


def not_found(message: str, hint: str | None = None, **more: Any) -> ApiError:
    return ApiError(404, "NOT_FOUND", message, hint, **more)


def api_error(error: Exception) -> ApiError | None:
    """Convert an error that an action, a query or the client library raised; None if it is a defect."""
    match error:
        case ApiError():
            return error
        case ActionErrors():
            first = _from_action(error.errors[0])
            return ApiError(first.status, first.code, str(error), first.hint)
        case ActionError():
            return _from_action(error)
        case TooManyQueries():
            return ApiError(429, "TOO_MANY_READS", "Too many queries are running.", "Try again in some seconds.")
        case QueryError():
            return ApiError(400, "INVALID_QUERY", _without_options(str(error)))
        case BrokerError():
            code = NAMES.get(error.code, "CLUSTER_ERROR")
            status = _status(code)
            return ApiError(502 if status == 400 else status, code, f"The cluster rejected the request: {error}.")
        case PenstockClientError():
            return ApiError(502, "CLUSTER_ERROR", f"The cluster could not be read: {error}")
        case PenstockError():
            return ApiError(400, "INVALID_REQUEST", str(error))
    if type(error).__name__ == "KafkaException":
        from penstock.actions.librdkafka import action_error

        return _from_action(action_error(error.args[0]))
    if isinstance(error, OSError):
        return ApiError(502, "CLUSTER_ERROR", f"The cluster could not be reached: {error.strerror or error}.")
    return None


def _from_action(error: ActionError) -> ApiError:
    code = error.code or "REJECTED"
    return ApiError(_status(code), code, str(error), _HINTS.get(code))


def _status(code: str) -> int:
    if code in _UNREACHABLE:
        return 502
    if code in _LATE:
        return 504
    if code in _UNKNOWN:
        return 404
    if code.endswith("AUTHORIZATION_FAILED"):
        return 403
    if "AUTHENTICATION" in code:
        return 401
    return 400


def _without_options(message: str) -> str:
    """Remove advice that is about options of the command line."""
    return message.replace(", or increase --timeout", "").replace(", or increase --memory", "")
