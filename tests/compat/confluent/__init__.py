"""confluent-kafka, which is librdkafka."""
