"""Helpers that several kinds of test share: ports, Java, the peer broker, Penstock as a process."""
