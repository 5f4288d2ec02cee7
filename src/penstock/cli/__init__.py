"""The command line: one file per group of commands.

`main.py` is the command tree. A command parses options, calls `penstock.actions` and prints. Only `start`, `cluster
start` and `demo` run brokers, and only `log` opens their files; every other command is a client of any Kafka cluster.
Slow imports are inside functions, so that help and usage errors appear without delay.
"""
