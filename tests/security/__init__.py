"""Known vulnerabilities of Kafka and of other brokers, as tests."""
