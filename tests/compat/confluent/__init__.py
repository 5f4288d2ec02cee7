"""confluent-kafka, which uses librdkafka."""
