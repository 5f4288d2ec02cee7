"""The Java client and Kafka's command-line tools."""
