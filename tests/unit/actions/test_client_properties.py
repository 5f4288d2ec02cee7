from pathlib import Path

import pytest

from penstock.actions.client_properties import read_properties_file, to_librdkafka
from penstock.actions.errors import ActionError

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="a=b c";'

TOKEN_LOGIN = 'ScramLoginModule required username="id" password="hmac" tokenauth="true";'


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": LOGIN},
            {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "a=b c"},
        ),
        ({"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"}, {"ssl.ca.location": "/ca.pem"}),
        (
            {"ssl.keystore.location": "/me.pem"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem"},
        ),
        ({"ssl.keystore.location": "/me.p12"}, {"ssl.keystore.location": "/me.p12"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"ssl.ca.location": "/ca.pem", "linger.ms": "7"}, {"ssl.ca.location": "/ca.pem", "linger.ms": "7"}),
    ],
)
def test_names_of_java_are_translated(given: dict[str, str], wanted: dict[str, str]) -> None:
    assert to_librdkafka(given) == wanted


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"ssl.truststore.location": "/ca.jks"}, "Use a PEM file"),
        ({"ssl.keystore.location": "/me.jks"}, "Use a PEM or PKCS#12 file"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "Plain required;"}, "it has no user name"),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": TOKEN_LOGIN},
            "cannot log in with a delegation token, because librdkafka does not support them",
        ),
    ],
)
def test_unsupported_properties_are_rejected(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ActionError, match=complaint):
        to_librdkafka(given)


def test_an_unreadable_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ActionError, match=f"Cannot read {tmp_path}/none: No such file or directory. Check the path."):
        read_properties_file(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ActionError, match="it is not a text file"):
        read_properties_file(tmp_path / "binary")
