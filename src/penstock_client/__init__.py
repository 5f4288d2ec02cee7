"""A synchronous Kafka client without Spark and without the broker: protocol, records, scans and Arrow columns."""
