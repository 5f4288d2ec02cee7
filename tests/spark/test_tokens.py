"""Spark and delegation tokens: Spark's token provider obtains one, and its connector and ours log in with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from penstock.testing import Broker
from tests.support.ports import HOST, free_ports
from tests.support.security import jaas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "tokens"
VALUES = {str(number) for number in range(50)}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PREFIX = "spark.kafka.clusters.penstock."


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Provide the address of a broker that only authenticated clients may use, with a topic."""
    (port,) = free_ports(1)
    settings = {
        "listeners": f"SASL_PLAINTEXT://{HOST}:{port}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(driver="driver-secret"),
        "delegation.token.secret.key": "key",
    }
    with Broker(settings, port=port):
        producer = Producer({
            "bootstrap.servers": f"{HOST}:{port}", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.username": "driver", "sasl.password": "driver-secret",
        })  # fmt: skip
        for value in VALUES:
            producer.produce(TOPIC, value)
        assert producer.flush(60) == 0
        yield f"{HOST}:{port}"


@pytest.fixture(scope="module")
def token(spark: SparkSession, connector: list[str], address: str) -> tuple[str, str]:
    """Let Spark's provider obtain a token, as it does when an application starts; provide its id and HMAC."""
    if not connector:
        pytest.skip("the jars of Spark's Kafka connector are not available: Maven is missing or cannot resolve them")
    jvm: Any = spark._jvm
    conf = spark._jsc.sc().conf()  # the one that executors in this process use, not a copy
    login = f'{PLAIN} username="driver" password="driver-secret";'
    settings = {
        "auth.bootstrap.servers": address,
        "target.bootstrap.servers.regex": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.token.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
    }
    for name, value in settings.items():
        conf.set(PREFIX + name, value)
    provider = jvm.org.apache.spark.kafka010.KafkaDelegationTokenProvider()
    credentials = jvm.org.apache.hadoop.security.Credentials()
    provider.obtainDelegationTokens(spark._jsc.hadoopConfiguration(), conf, credentials)
    assert credentials.numberOfTokens() == 1
    jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addCredentials(credentials)
    obtained = credentials.getAllTokens().iterator().next()
    # The settings stay: the user of this process keeps the token, and Spark's connector looks up the cluster of each
    # token of its user. Later tests use other addresses, which the regular expression does not match.
    return bytes(obtained.getIdentifier()).decode(), bytes(obtained.getPassword()).decode()


def read(spark: SparkSession, form: str, address: str, **login: str) -> set[str]:
    options = {"kafka.bootstrap.servers": address, "kafka.security.protocol": "SASL_PLAINTEXT", "subscribe": TOPIC}
    reader: Any = spark.read.format(form).options(**options).options(**login)
    return {bytes(row.value).decode() for row in reader.load().collect()}


def test_the_connector_of_spark_uses_the_token_of_its_provider(
    spark: SparkSession, address: str, token: tuple[str, str]
) -> None:
    # No login in the options: the connector finds the token of the cluster.
    assert read(spark, "kafka", address) == VALUES


def test_this_connector_logs_in_with_a_token(spark: SparkSession, address: str, token: tuple[str, str]) -> None:
    login = f'{SCRAM} username="{token[0]}" password="{token[1]}" tokenauth="true";'
    settings = {"kafka.sasl.mechanism": "SCRAM-SHA-256", "kafka.sasl.jaas.config": login}
    assert read(spark, "penstock", address, **settings) == VALUES
    with pytest.raises(Exception, match="SASL login"):
        read(spark, "penstock", address, **settings | {"kafka.sasl.jaas.config": login.replace("tokenauth", "other")})
