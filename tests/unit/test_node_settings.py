"""What a node takes out of its settings."""

import sys

import pytest

from penstock.config.settings import BrokerSettings
from penstock.model.errors import StartupError
from penstock.node_settings import data_folder, network_limits, parse_listener, quota_spans


def settings(**named: str) -> BrokerSettings:
    return BrokerSettings({name.replace("_", "."): value for name, value in named.items()})


def test_a_node_has_one_folder() -> None:
    assert data_folder(settings(log_dirs="/data/one/")) == "/data/one"
    assert data_folder(settings(log_dirs="/")) == "/"


def test_more_than_one_folder_is_refused_with_what_to_do() -> None:
    with pytest.raises(StartupError, match="one node for each disk"):
        data_folder(settings(log_dirs="/one,/two"))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("plaintext://localhost:9092", ("PLAINTEXT", "localhost", 9092)),
        ("CONTROLLER://:9093", ("CONTROLLER", "", 9093)),
        ("PLAINTEXT://[::1]:9092", ("PLAINTEXT", "::1", 9092)),
    ],
)
def test_a_listener_is_a_name_a_host_and_a_port(text: str, parts: tuple[str, str, int]) -> None:
    assert parse_listener(text) == parts


def test_the_window_that_is_about_to_end_counts_for_nothing() -> None:
    spans = quota_spans(settings(quota_window_num="11", quota_window_size_seconds="2"))
    assert spans.rate_s == 20


def test_a_quota_has_one_window_at_least() -> None:
    assert quota_spans(settings(quota_window_num="1", quota_window_size_seconds="3")).rate_s == 3


def test_no_budget_for_requests_means_no_bound() -> None:
    assert network_limits(settings(queued_max_request_bytes="-1")).memory_budget == sys.maxsize
    assert network_limits(settings(queued_max_request_bytes="5000000")).memory_budget == 5_000_000


def test_sockets_are_asked_for_as_they_are_set_and_otherwise_left_to_the_system() -> None:
    limits = network_limits(
        settings(socket_listen_backlog_size="7", socket_receive_buffer_bytes="65536", socket_send_buffer_bytes="131072")
    )
    assert (limits.backlog, limits.receive_buffer_size, limits.send_buffer_size) == (7, 65536, 131072)
    assert (network_limits(settings()).receive_buffer_size, network_limits(settings()).send_buffer_size) == (-1, -1)
