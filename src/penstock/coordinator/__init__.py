"""The runtime of replicated state machines: loads shards, runs commands in order, parks replies, unloads shards."""
