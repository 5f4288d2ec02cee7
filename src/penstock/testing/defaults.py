"""Settings of the brokers in tests that differ from those of `penstock start`."""

# The default of three seconds gives all members of a new group time to join; most tests have one member.
DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}
