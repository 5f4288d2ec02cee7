"""The mechanisms that a listener enables, ready to start exchanges; and the mechanism of this node's own login.

Goes to plain.py, scram.py and oauthbearer.py. Refuses at startup: InvalidConfig.
"""

import hmac
from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from penstock.config.broker_security import OAUTHBEARER, PLAIN
from penstock.config.listeners import ListenerConfig
from penstock.model.errors import InvalidConfig
from penstock.security.jaas import Jaas, parse_jaas
from penstock.security.mechanism import ClientMechanism, ServerMechanism
from penstock.security.oauthbearer import OauthBearerServer, VerifyToken
from penstock.security.plain import PlainClient, PlainServer
from penstock.security.scram import MECHANISM_IDS, ScramClient, ScramCredential, ScramServer, TokenLogin
from penstock.security.tokens import Tokens, TokenSecrets
from penstock.security.unknown_users import DEFAULT_SHAPE, UnknownUsers, shapes_of

NONCE_SIZE = 24

Credentials = Callable[[], Mapping[tuple[str, int], ScramCredential]]
"""Returns the present credentials by user and by the number of the mechanism."""
FindTokens = Callable[[], Tokens]
"""Returns the present delegation tokens."""
FindSecret = Callable[[], str | None]
"""Returns the secret of the cluster that unknown users' credentials are derived from; None if there is none yet."""


class _Unknown(NamedTuple):
    """The credentials of users and of delegation tokens that do not exist."""

    users: UnknownUsers
    tokens: UnknownUsers


class ServerMechanisms:
    """The mechanisms of one listener."""

    def __init__(
        self,
        listener: ListenerConfig,
        *,
        credentials: Credentials,
        random: Random,
        unknown_users_secret: FindSecret = lambda: None,
        tokens: FindTokens = dict,
        token_secrets: TokenSecrets | None = None,
        verify_token: VerifyToken | None = None,
    ) -> None:
        self.names: tuple[str, ...] = tuple(listener.get("sasl.enabled.mechanisms"))
        self._listener = listener
        self._credentials = credentials
        self._random = random
        self._find_secret = unknown_users_secret
        self._tokens = tokens
        self._token_secrets = token_secrets
        self._verify_token = verify_token
        self._random_key = random.randbytes(32)
        self._unknown_by_mechanism: dict[str, _Unknown] = {}
        self._derived_from: tuple[Mapping[tuple[str, int], ScramCredential], bytes] | None = None
        self._plain: PlainServer | None = None
        if PLAIN in self.names:
            passwords = _jaas(listener, PLAIN).users
            self._plain = PlainServer(passwords, unknown=self._random_key)
            if not passwords:
                raise InvalidConfig(
                    f'The listener {listener.name} enables PLAIN but has no users: add user_<name>="<password>" to '
                    "its sasl.jaas.config"
                )

    def start(self, mechanism: str) -> ServerMechanism:
        """Start an exchange with one of `names`."""
        if mechanism == PLAIN:
            assert self._plain is not None, "PLAIN is enabled"
            return self._plain
        if mechanism == OAUTHBEARER:
            assert self._verify_token is not None, "checked at startup"
            return OauthBearerServer(self._verify_token)
        number, credentials = MECHANISM_IDS[mechanism], self._credentials()
        unknown = self._unknown(mechanism, credentials)
        return ScramServer(
            mechanism,
            lambda user: credentials.get((user, number)),
            nonce=self._random.randbytes(NONCE_SIZE).hex(),
            invent=unknown.users.credential,
            find_token=lambda token_id: self._token_login(mechanism, token_id, unknown.tokens),
            invent_token=unknown.tokens.credential,
        )

    def _token_login(self, mechanism: str, token_id: str, unknown: UnknownUsers) -> TokenLogin | None:
        """Return what a login with a delegation token needs, if the token exists."""
        token = self._tokens().get(token_id)
        if token is None or self._token_secrets is None:
            return None
        # The salt of an unknown token with this id: it does not reveal whether the token exists.
        salt = unknown.credential(token_id).salt
        credential = self._token_secrets.credential(mechanism, token_id, salt)
        return TokenLogin(credential, token.owner.name, token.expires_at_ms)

    def lifetime_ms_max(self, mechanism: str) -> int:
        return int(self._listener.get("connections.max.reauth.ms", mechanism))

    def _unknown(self, mechanism: str, credentials: Mapping[tuple[str, int], ScramCredential]) -> _Unknown:
        """Return the unknown users and tokens of a mechanism; kept until the credentials or the secret change."""
        secret = self._secret(credentials)
        # The mapping is replaced, never changed.
        if (
            self._derived_from is None
            or self._derived_from[0] is not credentials
            or not hmac.compare_digest(self._derived_from[1], secret)
        ):
            self._derived_from = credentials, secret
            self._unknown_by_mechanism.clear()
        found = self._unknown_by_mechanism.get(mechanism)
        if found is None:
            number = MECHANISM_IDS[mechanism]
            shapes = shapes_of(each for key, each in credentials.items() if key[1] == number)
            found = self._unknown_by_mechanism[mechanism] = _Unknown(
                users=UnknownUsers(mechanism, secret, shapes),
                tokens=UnknownUsers(mechanism, secret, (DEFAULT_SHAPE,)),
            )
        return found

    def _secret(self, credentials: Mapping[tuple[str, int], ScramCredential]) -> bytes:
        """Return a secret that all nodes share.

        If an unknown user had another salt on every node, comparing two nodes would show which users exist. A cluster
        whose users were created by an older version has no secret of its own until one of them is changed.
        """
        configured = self._find_secret()
        if configured is not None:
            return configured.encode()
        return credentials[min(credentials)].server_key if credentials else self._random_key


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
