"""The Java client and the command-line tools that come with Kafka."""
