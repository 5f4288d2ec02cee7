"""Several clients over TLS and SASL."""

import tests.compat.kafka_python  # noqa: F401  -- imports the client without its warnings
