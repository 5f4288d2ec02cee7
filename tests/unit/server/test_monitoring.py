import pytest

from penstock.server.monitoring import parse_metrics_listener


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://10.0.0.5:9404", ("10.0.0.5", 9404)),
        ("http://[::1]:9404", ("::1", 9404)),
        ("http://:9404", ("", 9404)),
        ("unix:/run/penstock/metrics", ("/run/penstock/metrics", 0)),
    ],
)
def test_the_address_of_the_endpoint_is_a_port_or_a_path(address: str, expected: tuple[str, int]) -> None:
    assert parse_metrics_listener(address) == expected
