"""A listener's mechanisms are checked at startup; a node that cannot log in says which option is missing."""

from random import Random
from typing import Any

import pytest

from penstock.config.listeners import ListenerConfig
from penstock.config.settings import BrokerSettings
from penstock.model.errors import InvalidConfig
from penstock.security.mechanism import Accepted
from penstock.security.mechanisms import ServerMechanisms, own_login, own_user
from penstock.security.oauthbearer import OauthBearerServer
from penstock.security.plain import PlainClient
from penstock.security.scram import ScramClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
OPTION = "listener.name.inside.{}.sasl.jaas.config"


def listener(mechanisms: str, **jaas: str) -> ListenerConfig:
    """Return a SASL listener whose mechanisms have these JAAS options."""
    values = dict(BrokerSettings()) | {"listener.name.inside.sasl.enabled.mechanisms": tuple(mechanisms.split(","))}
    for mechanism, options in jaas.items():
        values[OPTION.format(mechanism.replace("_", "-"))] = f"{MODULE} required {options};"
    return ListenerConfig("INSIDE", "SASL_PLAINTEXT", values)


def serving(config: ListenerConfig, **options: Any) -> ServerMechanisms:
    return ServerMechanisms(config, credentials=dict, random=Random(1), **options)


def test_plain_checks_the_passwords_of_the_listener() -> None:
    mechanisms = serving(listener("PLAIN", plain='user_alice="wonderland"'))
    step = mechanisms.start("PLAIN").step(b"\0alice\0wonderland")
    assert isinstance(step, Accepted) and step.user == "alice"


def test_plain_without_users_is_rejected_with_the_option_that_adds_one() -> None:
    with pytest.raises(InvalidConfig, match="The listener INSIDE enables PLAIN but has no users: add user_<name>="):
        serving(listener("PLAIN", plain='username="node" password="secret"'))


def test_plain_without_configuration_is_rejected_with_the_name_of_the_option() -> None:
    with pytest.raises(InvalidConfig, match=r"listener\.name\.inside\.plain\.sasl\.jaas\.config is not set"):
        serving(listener("PLAIN"))


def test_oauthbearer_starts_with_the_verifier_of_the_node() -> None:
    def refuse(token: str) -> Any:
        raise AssertionError(token)

    mechanisms = serving(listener("OAUTHBEARER"), verify_token=refuse)
    assert isinstance(mechanisms.start("OAUTHBEARER"), OauthBearerServer)


@pytest.mark.parametrize(("mechanism", "kind"), [("PLAIN", PlainClient), ("SCRAM-SHA-512", ScramClient)])
def test_a_node_logs_in_with_its_own_user(mechanism: str, kind: type[object]) -> None:
    name = mechanism.lower().replace("-", "_")
    config = listener(mechanism, **{name: 'username="node" password="secret"'})
    assert isinstance(own_login(config, mechanism, Random(1)), kind)
    assert own_user(config, mechanism) == "node"


def test_a_node_without_a_user_cannot_log_in() -> None:
    config = listener("PLAIN", plain='user_alice="wonderland"')
    with pytest.raises(InvalidConfig, match="This node cannot log in on the listener INSIDE: add username and"):
        own_login(config, "PLAIN", Random(1))
    assert own_user(config, "PLAIN") is None
    assert own_user(listener("PLAIN"), "PLAIN") is None
