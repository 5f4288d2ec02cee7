"""Client properties: Java's names and librdkafka's, so that one file works for Kafka's tools and for ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.actions.errors import ActionError

# Properties that an action sets itself.
RESERVED: Final = frozenset({
    "acks", "auto.offset.reset", "bootstrap.servers", "client.id", "compression.type", "enable.auto.commit",
    "enable.auto.offset.store", "enable.idempotence", "enable.partition.eof", "group.id", "isolation.level",
    "transactional.id",
})  # fmt: skip
_JAVA_ONLY: Final = frozenset({
    "key.deserializer", "key.serializer", "ssl.enabled.protocols", "ssl.keystore.type", "ssl.protocol",
    "ssl.truststore.password", "ssl.truststore.type", "value.deserializer", "value.serializer",
})  # fmt: skip
_JAVA_KEY_STORES: Final = (".jks", ".p12", ".pfx")
_SECURITY: Final = ("security.", "sasl.", "ssl.")


def security_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that secure a connection."""
    return {name: value for name, value in properties.items() if name.startswith(_SECURITY)}


def read_properties_file(path: Path) -> dict[str, str]:
    from penstock.config.properties import parse_properties

    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ActionError(f"Cannot read {path}: it is not a text file. Use a file of NAME=VALUE lines.") from None
    except OSError as error:
        raise ActionError(f"Cannot read {path}: {error.strerror}. Check the path.") from None


def to_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate Java's names to librdkafka's. librdkafka's own names pass through."""
    found = {name: value for name, value in properties.items() if name not in _JAVA_ONLY}
    login = found.pop("sasl.jaas.config", None)
    if login is not None and _is_token({"sasl.jaas.config": login}):
        raise ActionError(
            "This command cannot log in with a delegation token, because librdkafka does not support them. Use a "
            "user name and a password, or Kafka's tools."
        )
    if login is not None and found.get("sasl.mechanism", "").upper() != "GSSAPI":
        found["sasl.username"], found["sasl.password"] = _credentials({**found, "sasl.jaas.config": login})
    authorities = found.pop("ssl.truststore.location", None)
    if authorities is not None:
        if authorities.lower().endswith(_JAVA_KEY_STORES):
            raise ActionError(
                f"Unsupported ssl.truststore.location '{authorities}': Java key stores cannot be read. Use a PEM file; "
                "'keytool -exportcert -rfc' writes one."
            )
        found.setdefault("ssl.ca.location", authorities)
    keys = found.get("ssl.keystore.location", "")
    if keys.lower().endswith(".jks"):
        raise ActionError(
            f"Unsupported ssl.keystore.location '{keys}': Java key stores cannot be read. Use a PEM or PKCS#12 file."
        )
    if keys and not keys.lower().endswith(_JAVA_KEY_STORES):
        del found["ssl.keystore.location"]
        found.setdefault("ssl.certificate.location", keys)
        found.setdefault("ssl.key.location", keys)
    # An empty value disables host name verification in Java.
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def _is_token(properties: Mapping[str, str]) -> bool:
    from penstock_client.protocol.sasl import is_token

    return is_token(properties)


def _credentials(properties: Mapping[str, str]) -> tuple[str, str]:
    from penstock_client.errors import PenstockClientError
    from penstock_client.protocol.sasl import credentials

    try:
        return credentials(properties)
    except PenstockClientError:
        raise ActionError(
            'Invalid sasl.jaas.config: it has no user name. Add username="..." password="..." to it, or set '
            "sasl.username and sasl.password."
        ) from None
