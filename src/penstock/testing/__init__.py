"""A real broker for tests, in this process or in one of its own.

`Broker` runs on a free port with its data in a temporary folder and starts in milliseconds;
`BrokerProcess` is the same as a process, for tests that pull the plug. `plugin.py` makes
fixtures of the first. What they run is the broker itself: nothing here is a mock.
"""

from penstock.testing.broker import Broker
from penstock.testing.process import BrokerProcess

__all__ = ["Broker", "BrokerProcess"]
