"""A small blocking client for Kafka's protocol, limited to the needs of a Spark source and sink."""
