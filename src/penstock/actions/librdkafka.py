"""Requests through librdkafka: its configuration, its admin client, and its errors as ActionError."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.actions.client_properties import to_librdkafka
from penstock.actions.connection import REQUEST_TIMEOUT_S, Connection, check_reachable
from penstock.actions.errors import TIMED_OUT, ActionError, ActionErrors

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")


def client_config(connection: Connection, /, **settings: object) -> dict[str, Any]:
    """Return the configuration of a client, after checking that a broker is reachable.

    The properties of the connection take precedence over the settings.
    """
    check_reachable(connection)
    return {
        "bootstrap.servers": connection.bootstrap,
        "client.id": "penstock-cli",
        "log_level": 0,
        "error_cb": lambda error: None,
        "socket.timeout.ms": int(REQUEST_TIMEOUT_S * 1000),
        **settings,
        **to_librdkafka(connection.properties),
    }


def open_admin(connection: Connection) -> "AdminClient":
    """Return an admin client. The library cancels its requests when the client is garbage-collected."""
    from confluent_kafka.admin import AdminClient

    return AdminClient(client_config(connection))


def wait(future: "Future[T]", *, about: str) -> T:
    """Wait for the result of an admin request; an error message begins with what the request is about."""
    from confluent_kafka import KafkaException

    try:
        return future.result(timeout=REQUEST_TIMEOUT_S * 2)
    except KafkaException as error:
        raise action_error(error.args[0], about=about) from None
    except FutureTimeoutError:
        raise ActionError(f"{about}: the request timed out.", code=TIMED_OUT) from None


def wait_all(futures: Mapping[str, "Future[T]"], *, done: Callable[[str], None] | None = None) -> dict[str, T]:
    """Wait for every result, then raise all errors together; `done` is called with the name of each success."""
    results: dict[str, T] = {}
    errors: list[ActionError] = []
    for name, future in futures.items():
        try:
            results[name] = wait(future, about=name)
        except ActionError as error:
            errors.append(error)
        else:
            if done is not None:
                done(name)
    if errors:
        raise errors[0] if len(errors) == 1 else ActionErrors(errors)
    return results


def action_error(error: "KafkaError", *, about: str = "") -> ActionError:
    """Convert an error of librdkafka."""
    message = (error.str() or error.name()).strip().rstrip(".")
    return ActionError(f"{about}: {message}." if about else f"{message}.", code=error.name(), about=about)
