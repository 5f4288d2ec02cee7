"""Helpers shared by several test suites: ports, Java, the peer broker, Penstock as a process."""
