"""The mechanisms that a listener enables, ready to start exchanges; and the mechanism of this node's own login.

Goes to plain.py, scram.py and oauthbearer.py. Refuses at startup: InvalidConfig.
"""

import hashlib
from collections.abc import Callable, Mapping
from random import Random

from penstock.config.broker_security import OAUTHBEARER, PLAIN
from penstock.config.listeners import ListenerConfig
from penstock.model.errors import InvalidConfig
from penstock.security.jaas import Jaas, parse_jaas
from penstock.security.mechanism import ClientMechanism, ServerMechanism
from penstock.security.oauthbearer import OauthBearerServer, VerifyToken
from penstock.security.plain import PlainClient, PlainServer
from penstock.security.scram import MECHANISM_IDS, ScramClient, ScramCredential, ScramServer

NONCE_SIZE = 24

Credentials = Callable[[], Mapping[tuple[str, int], ScramCredential]]
"""Returns the present credentials by user and by the number of the mechanism."""


class ServerMechanisms:
    """The mechanisms of one listener."""

    def __init__(
        self,
        listener: ListenerConfig,
        *,
        credentials: Credentials,
        random: Random,
        verify_token: VerifyToken | None = None,
    ) -> None:
        self.names: tuple[str, ...] = tuple(listener.get("sasl.enabled.mechanisms"))
        self._listener = listener
        self._credentials = credentials
        self._random = random
        self._verify_token = verify_token
        self._unknown = random.randbytes(32)
        self._passwords: Mapping[str, str] = {}
        if PLAIN in self.names:
            self._passwords = _jaas(listener, PLAIN).users
            if not self._passwords:
                raise InvalidConfig(
                    f'The listener {listener.name} enables PLAIN but has no users: add user_<name>="<password>" to '
                    "its sasl.jaas.config"
                )

    def start(self, mechanism: str) -> ServerMechanism:
        """Start an exchange with one of `names`."""
        if mechanism == PLAIN:
            return PlainServer(self._passwords, unknown=self._unknown)
        if mechanism == OAUTHBEARER:
            assert self._verify_token is not None, "checked at startup"
            return OauthBearerServer(self._verify_token)
        number, credentials = MECHANISM_IDS[mechanism], self._credentials()
        return ScramServer(
            mechanism,
            lambda user: credentials.get((user, number)),
            nonce=self._random.randbytes(NONCE_SIZE).hex(),
            unknown=self._unknown_key(credentials),
        )

    def lifetime_ms_max(self, mechanism: str) -> int:
        return int(self._listener.get("connections.max.reauth.ms", mechanism))

    def _unknown_key(self, credentials: Mapping[tuple[str, int], ScramCredential]) -> bytes:
        """Return the key of the salts for unknown users.

        It is derived from a secret that all nodes share: if an unknown user had another salt on every node, comparing
        two nodes would show which users exist.
        """
        if not credentials:
            return self._unknown
        return hashlib.sha256(b"unknown users" + credentials[min(credentials)].server_key).digest()


def own_login(listener: ListenerConfig, mechanism: str, random: Random) -> ClientMechanism:
    """Return the client's side of this node's login on a listener of another node."""
    login = _jaas(listener, mechanism).own_login
    if login is None:
        raise InvalidConfig(
            f"This node cannot log in on the listener {listener.name}: add username and password to the "
            f"sasl.jaas.config of {mechanism}"
        )
    if mechanism == PLAIN:
        return PlainClient(*login)
    return ScramClient(mechanism, *login, nonce=random.randbytes(NONCE_SIZE).hex())


def own_user(listener: ListenerConfig, mechanism: str) -> str | None:
    """Return the user that this node logs in as, if one is configured."""
    text = listener.get("sasl.jaas.config", mechanism)
    login = None if text is None else parse_jaas(text).own_login
    return None if login is None else login[0]


def _jaas(listener: ListenerConfig, mechanism: str) -> Jaas:
    option = f"listener.name.{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = listener.get("sasl.jaas.config", mechanism)
    if text is None:
        raise InvalidConfig(f"{option} is not set")
    return parse_jaas(text, option=option)
