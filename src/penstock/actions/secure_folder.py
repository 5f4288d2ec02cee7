"""The folder `security` of a secured node or cluster: its authority, certificates, admin user and client properties.

Created once; later starts use the same files. All files are readable by their owner only. Raises ActionError.
"""

import datetime
import os
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.actions.certificates import SignedKey, create_authority, issue_certificate
from penstock.actions.errors import ActionError
from penstock.config.broker_security import STANDARD_AUTHORIZER
from penstock.security.bootstrap import make_first_users, parse_first_users, render_first_users
from penstock.security.scram import HASHES, SALT_SIZE

NAME: Final = "security"
ADMIN: Final = "admin"
LISTENER: Final = "SASL_SSL"
NODE_NAME: Final = "penstock-node"
_AUTHORITY_KEY, _AUTHORITY, _NODE, _USERS = "ca.key", "ca.pem", "node.pem", "first-users"
_TOKEN_KEY: Final = "token.key"
CLIENT, JAVA_CLIENT = "client.properties", "client.java.properties"
_MECHANISM: Final = "SCRAM-SHA-512"


class SecureFolder:
    def __init__(self, folder: Path) -> None:
        """Use the folder of a node's or a cluster's data."""
        self.path = folder.absolute() / NAME

    @property
    def exists(self) -> bool:
        return (self.path / JAVA_CLIENT).exists()

    @property
    def authority_file(self) -> Path:
        return self.path / _AUTHORITY

    @property
    def node_file(self) -> Path:
        return self.path / _NODE

    @property
    def client_file(self) -> Path:
        return self.path / CLIENT

    @property
    def java_client_file(self) -> Path:
        return self.path / JAVA_CLIENT

    def create(self, *, hosts: Sequence[str], bootstrap: str) -> None:
        """Create the authority, the certificate, the admin user and the client properties."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.chmod(0o700)
        now = datetime.datetime.now(datetime.UTC)
        authority = create_authority(f"Penstock CA {secrets.token_hex(4)}", now=now)
        self._write(_AUTHORITY_KEY, authority.key)
        self._write(_AUTHORITY, authority.certificate)
        self._write_node(authority, hosts, now)
        password = secrets.token_urlsafe(24)
        salts = [secrets.token_bytes(SALT_SIZE) for _ in HASHES]
        self._write(_USERS, render_first_users(make_first_users(ADMIN, password, salts)))
        self._write(_TOKEN_KEY, secrets.token_urlsafe(32))
        self.write_clients(bootstrap, ADMIN, password)

    def renew(self, *, hosts: Sequence[str]) -> None:
        """Issue a new certificate with the same authority; running nodes load it by themselves."""
        if not self.exists:
            raise ActionError(f"There is no certificate in {self.path}.", code="NOT_SECURED")
        authority = SignedKey((self.path / _AUTHORITY_KEY).read_text(), self.authority_file.read_text())
        self._write_node(authority, hosts, datetime.datetime.now(datetime.UTC))

    def write_clients(self, bootstrap: str, user: str, password: str) -> None:
        """Write the properties for clients of librdkafka, and last those for Java: with them the folder is complete."""
        common = {"bootstrap.servers": bootstrap, "security.protocol": LISTENER, "sasl.mechanism": _MECHANISM}
        self._write(
            CLIENT,
            _properties({
                **common,
                "sasl.username": user,
                "sasl.password": password,
                "ssl.ca.location": str(self.authority_file),
            }),
        )  # fmt: skip
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        self._write(
            JAVA_CLIENT,
            _properties({
                **common,
                "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority_file),
            }),
        )  # fmt: skip

    def client_properties(self) -> dict[str, str]:
        """Return the properties for clients of librdkafka."""
        lines = self.client_file.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def broker_options(self) -> dict[str, str]:
        """Return the options of a node whose listener SASL_SSL is for clients."""
        users = (self.path / _USERS).read_text().strip()
        parse_first_users(users)
        token_key = self.path / _TOKEN_KEY
        if not token_key.exists():
            # An earlier version created the folder.
            self._write(_TOKEN_KEY, secrets.token_urlsafe(32))
        return {
            "delegation.token.secret.key": token_key.read_text().strip(),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.node_file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority_file),
            "sasl.enabled.mechanisms": ",".join(reversed(HASHES)),
            "bootstrap.scram.credentials": users,
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{ADMIN}",
        }

    def _write_node(self, authority: SignedKey, hosts: Sequence[str], now: datetime.datetime) -> None:
        node = issue_certificate(authority, NODE_NAME, hosts=hosts, now=now)
        self._write(_NODE, node.key + node.certificate)

    def _write(self, name: str, text: str) -> None:
        """Write a file that only its owner can read, never half of it."""
        part = self.path / f"{name}.part"
        part.unlink(missing_ok=True)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        part.rename(self.path / name)


def host_names(*given: str) -> list[str]:
    """Return the names under which clients may reach this machine."""
    own = [socket.gethostname(), socket.getfqdn()]
    named = [*(name for name in given if name not in ("", "0.0.0.0", "::")), "localhost", "127.0.0.1", "::1", *own]
    return [name for name in dict.fromkeys(named) if name]


def _properties(values: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())
