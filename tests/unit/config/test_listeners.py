"""The protocols and options of listeners, and the errors of a wrong configuration."""

import pytest

from penstock.config.broker import BROKER
from penstock.config.listeners import (
    controller_listener,
    inter_broker_listener,
    listener_config,
    node_listener_names,
)
from penstock.config.option import Option, invalid, parse
from penstock.config.settings import BrokerSettings
from penstock.model.errors import InvalidConfig, StartupError

CERTIFICATE = {"ssl.keystore.location": "/etc/broker.pem", "ssl.keystore.type": "PEM"}
CLUSTER = {"controller.quorum.voters": "1@a:1,2@b:1,3@c:1", "cluster.id": "c"}


def load(**options: str) -> BrokerSettings:
    return BrokerSettings.load(file={name.replace("_", "."): value for name, value in options.items()})


def test_each_listener_has_the_protocol_of_the_map() -> None:
    settings = BrokerSettings.load(
        file={
            "listeners": "INSIDE://:1,OUTSIDE://:2",
            "listener.security.protocol.map": "inside:PLAINTEXT, Outside:SASL_SSL",
            **CERTIFICATE,
        }
    )
    inside, outside = listener_config(settings, "INSIDE"), listener_config(settings, "outside")
    assert (inside.protocol, inside.is_tls, inside.is_sasl, inside.protocol_id) == ("PLAINTEXT", False, False, 0)
    assert (outside.protocol, outside.is_tls, outside.is_sasl, outside.protocol_id) == ("SASL_SSL", True, True, 3)


def test_an_option_of_the_listener_comes_before_the_option_of_the_node() -> None:
    settings = BrokerSettings.load(
        file={
            "listeners": "SSL://:1",
            "ssl.keystore.location": "all.pem",
            "listener.name.ssl.ssl.keystore.location": "own.pem",
            "sasl.jaas.config": "all",
            "listener.name.ssl.sasl.jaas.config": "listener",
            "listener.name.ssl.scram-sha-256.sasl.jaas.config": "mechanism",
        }
    )
    assert listener_config(settings, "SSL").get("ssl.keystore.location") == "own.pem"
    assert listener_config(settings, "OTHER").get("ssl.keystore.location") == "all.pem"
    assert listener_config(settings, "SSL").get("sasl.jaas.config", "SCRAM-SHA-256") == "mechanism"
    assert listener_config(settings, "SSL").get("sasl.jaas.config", "PLAIN") == "listener"


def test_client_certificates_on_sasl_listeners_need_the_prefix() -> None:
    given = {"listeners": "SASL_SSL://:1,SSL://:2", **CERTIFICATE, "ssl.client.auth": "required"}
    trusted = {"ssl.truststore.location": "ca.pem"}
    settings = BrokerSettings.load(file={**given, **trusted})
    assert listener_config(settings, "SASL_SSL").client_auth == "none"
    assert listener_config(settings, "SSL").client_auth == "required"
    own = {"listener.name.sasl_ssl.ssl.client.auth": "requested"}
    settings = BrokerSettings.load(file={**given, **trusted, **own})
    assert listener_config(settings, "SASL_SSL").client_auth == "requested"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"listeners": "SSL://:1"}, "no certificate: set ssl.keystore.location"),
        ({"listeners": "SSL://:1", "ssl.keystore.key": "k"}, "without ssl.keystore.certificate.chain"),
        ({"listeners": "SSL://:1", **CERTIFICATE, "ssl.client.auth": "required"}, "no authority is trusted"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "does not support Kerberos. Use one of: PLAIN, SCRAM"),
        ({"sasl.enabled.mechanisms": "MD5"}, "must be one of: PLAIN"),
        ({"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "PLAIN"}, "enables PLAIN but has no users"),
        (
            {"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "OAUTHBEARER"},
            "no keys to verify tokens: set sasl.oauthbearer.jwks.endpoint.url",
        ),
        ({"listener.security.protocol.map": "A:TLS"}, "the protocol 'TLS': use one of PLAINTEXT"),
        (
            {"listeners": "A://:1,B://:2", "listener.security.protocol.map": "A:SASL_PLAINTEXT"},
            "listener B has no security protocol",
        ),
        ({"inter.broker.listener.name": "X"}, "which is none of the listeners"),
        ({"listeners": "SASL_PLAINTEXT://:1", **CLUSTER}, "set inter.broker.listener.name"),
        (
            {"listeners": "SASL_PLAINTEXT://:1", **CLUSTER, "inter.broker.listener.name": "SASL_PLAINTEXT"},
            "cannot log in at other nodes",
        ),
        ({"super.users": "alice"}, "must have the form User:name"),
    ],
)
def test_a_wrong_configuration_is_rejected(given: dict[str, str], message: str) -> None:
    with pytest.raises(StartupError, match=message):
        BrokerSettings.load(file=given)


def test_nodes_connect_on_the_listeners_for_nodes() -> None:
    default = BrokerSettings()
    assert node_listener_names(default) == {"PLAINTEXT"}
    assert inter_broker_listener(default) == controller_listener(default) == "PLAINTEXT"
    settings = BrokerSettings.load(
        file={
            "listeners": "PLAINTEXT://:1,INSIDE://:2,CONTROLLER://:3",
            "inter.broker.listener.name": "inside",
            "controller.listener.names": "controller",
            "node.listener.names": "PLAINTEXT",
        }
    )
    assert node_listener_names(settings) == {"INSIDE", "CONTROLLER", "PLAINTEXT"}
    assert (inter_broker_listener(settings), controller_listener(settings)) == ("INSIDE", "CONTROLLER")


def test_a_secured_single_node_has_no_listener_for_nodes() -> None:
    settings = BrokerSettings.load(file={"listeners": "SASL_PLAINTEXT://:1"})
    assert node_listener_names(settings) == frozenset()


def test_messages_do_not_contain_the_value_of_a_password() -> None:
    def check(name: str, value: object) -> None:
        raise invalid(name, value, "It is too short")

    secret = Option(name="x.password", kind="password", default=None, doc="", check=check)
    with pytest.raises(InvalidConfig) as caught:
        parse(secret, "open sesame")
    assert caught.value.message == "Invalid value [hidden] for configuration x.password: It is too short"


def test_every_secret_is_a_password() -> None:
    secret = [name for name in BROKER if name.endswith((".password", ".key", "jaas.config"))]
    assert secret and all(BROKER[name].sensitive for name in secret)
