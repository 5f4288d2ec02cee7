"""Transaction settings from the broker's configuration and the finalised features. Pure."""

from collections.abc import Mapping

from penstock.config.settings import BrokerSettings
from penstock.transactions.settings import TransactionSettings

TRANSACTION_VERSION = "transaction.version"


def transaction_settings(broker: BrokerSettings, features: Mapping[str, int]) -> TransactionSettings:
    return TransactionSettings(
        timeout_ms_max=broker.integer("transaction.max.timeout.ms"),
        transactional_id_expiration_ms=broker.integer("transactional.id.expiration.ms"),
        expiration_check_interval_ms=broker.integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
        version=features.get(TRANSACTION_VERSION, 0),
    )
