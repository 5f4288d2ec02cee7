"""The runtime of every replicated state machine: loads a shard, runs it in order, parks replies, unloads it."""
