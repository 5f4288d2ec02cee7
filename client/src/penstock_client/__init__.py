"""A synchronous Kafka client without Spark and without the broker: protocol, records, scans and Arrow columns."""

__version__ = "0.1.0"
