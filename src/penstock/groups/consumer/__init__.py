"""The consumer group protocol (KIP-848): members send heartbeats; the coordinator assigns partitions."""
