"""The result of an append to a log."""


class Appended:
    """The offsets of a batch; those of the earlier append if it is a duplicate."""

    __slots__ = ("base_offset", "duplicate", "last_offset", "log_append_time_ms", "log_start_offset")

    def __init__(
        self, base_offset: int, last_offset: int, log_append_time_ms: int, log_start_offset: int, duplicate: bool
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
