"""Brokers, replicas and the metadata quorum: their state, their configuration files and partition reassignment."""
