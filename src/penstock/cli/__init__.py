"""The command line: one file per group of commands, over the public protocol.

`main.py` is the tree. Only `start` runs a broker and only `log` opens its files; every other
command is a client like any other and works against any Kafka cluster. Heavy imports stay
inside the functions that need them, so that help and mistakes answer at once.
"""
