"""Tests of the source and the sink on Apache Kafka: they use only the standard protocol."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from penstock import arrow
from penstock_client.errors import PenstockClientError
from tests.spark.log import Log
from tests.support.apache_kafka import ApacheKafka
from tests.support.certificate import make_certificate
from tests.support.java_tools import JavaMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java

USER, PASSWORD = "spark", "a secret; with marks"
SECRETS = ["held"] * 3


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def peer(certificate: Path) -> Iterator[ApacheKafka]:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    users = f'{plain} user_{USER}="{PASSWORD}";'
    properties = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": users,
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": scram,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate),
    }
    try:
        made = ApacheKafka(properties=properties, listeners=("SASL_PLAINTEXT", "SSL", "SASL_SSL"))
    except JavaMissing as reason:
        pytest.skip(str(reason))
    with made:
        yield made


@pytest.fixture(scope="module")
def kafka(peer: ApacheKafka) -> Iterator[Log]:
    with Log(peer.bootstrap) as made:
        yield made


@pytest.fixture(scope="module")
def secrets(peer: ApacheKafka, kafka: Log) -> str:
    """Create a topic with rows, and a SCRAM user who may read it."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    wanted = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    admin.alter_user_scram_credentials([wanted])[USER].result(60)
    kafka.create("secrets", 1)
    kafka.fill("secrets", SECRETS)
    return "secrets"


def settings(protocol: str, mechanism: str | None, certificate: Path) -> dict[str, str]:
    given = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        given["ssl.truststore.location"] = str(certificate)
    if mechanism is not None:
        given |= {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
    return given


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SSL", None),
        ("SASL_SSL", "PLAIN"),
        ("SASL_SSL", "SCRAM-SHA-256"),
    ],
)
def test_the_client_authenticates_by(
    peer: ApacheKafka, secrets: str, certificate: Path, protocol: str, mechanism: str | None
) -> None:
    given = settings(protocol, mechanism, certificate)
    table = arrow.read(secrets, bootstrap=peer.address(protocol), settings=given, columns=["value"]).read_all()
    assert table["value"].to_pylist() == [value.encode() for value in SECRETS]


def test_a_wrong_password_and_an_unknown_certificate_are_reported(
    peer: ApacheKafka, secrets: str, certificate: Path
) -> None:
    wrong = settings("SASL_PLAINTEXT", "PLAIN", certificate) | {"sasl.password": "guessed"}
    with pytest.raises(PenstockClientError, match=f"SASL login of '{USER}'"):
        arrow.read(secrets, bootstrap=peer.address("SASL_PLAINTEXT"), settings=wrong)
    with pytest.raises(PenstockClientError, match=r"TLS with .* failed.*Check kafka\.ssl\.truststore\.location"):
        arrow.read(secrets, bootstrap=peer.address("SSL"), settings={"security.protocol": "SSL"})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("topic list", "secrets"),
        ("consume secrets --from earliest", "held"),
        ("cluster status", "up, controller"),
        ("quota list", ""),
        ("sql 'SELECT name FROM Topic'", "secrets"),
        ("doctor", "every partition has a leader"),
    ],
)
def test_the_commands_connect_with_a_properties_file_of_kafkas_tools(
    peer: ApacheKafka, secrets: str, certificate: Path, tmp_path: Path, words: str, expected: str
) -> None:
    file = tmp_path / "client.properties"
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    file.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={login}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificate}\n"
    )
    command = [sys.executable, "-m", "penstock.cli.main", *shlex.split(words), "-b", peer.address("SASL_SSL")]
    done = subprocess.run(
        [*command, "--command-config", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def test_rows_are_copied_through_apache_kafka_exactly_once(
    spark: SparkSession, peer: ApacheKafka, kafka: Log, secrets: str, certificate: Path, tmp_path: Path
) -> None:
    """Read from the plain listener, and write transactions to the one with TLS and a password."""
    kafka.create("in", 3)
    kafka.create("out", 2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        kafka.fill("in", [f"{codec}-{index}" for index in range(200)], settings={"compression.type": codec})
    kafka.fill("in", ["aborted"] * 20, transaction="t", commit=False)
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", kafka.bootstrap)
    frame = reader.options(subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger="600").load()
    guarded = {f"kafka.{name}": value for name, value in settings("SASL_SSL", "SCRAM-SHA-256", certificate).items()}
    guarded["kafka.bootstrap.servers"] = peer.address("SASL_SSL")
    writer = frame.select("key", "value").writeStream.format("penstock").option("topic", "out")
    writer = writer.options(checkpointLocation=str(tmp_path), **guarded)
    writer.trigger(availableNow=True).start().awaitTermination(200)
    expected = Counter(
        f"{codec}-{index}" for codec in ("none", "gzip", "snappy", "lz4", "zstd") for index in range(200)
    )
    assert kafka.committed_values("out") == expected
    batch = spark.read.format("penstock").options(subscribe="out", **guarded)
    assert Counter(bytes(row.value).decode() for row in batch.load().collect()) == expected
