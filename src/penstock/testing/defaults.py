"""Settings of the brokers in tests that differ from those of `penstock start`."""

DEFAULTS = {
    # The default of three seconds gives all members of a new group time to join; most tests have one member.
    "group.initial.rebalance.delay.ms": "0",
    # Tests write records with old timestamps. The first check, five minutes after startup, would delete them in
    # whichever test runs at that moment.
    "log.retention.check.interval.ms": "86400000",
}
