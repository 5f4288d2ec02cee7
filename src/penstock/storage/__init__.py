"""Logs on disk in Kafka's formats: one partition's log, then all the logs of a data folder."""
