"""A real broker for tests, in this process or in a separate one.

`Broker` runs on a free port with its data in a temporary directory and starts in milliseconds; `BrokerProcess` runs
as a separate process, for tests that kill it. `plugin.py` provides fixtures. Both run the real broker, not a mock.
"""

from penstock.testing.broker import Broker
from penstock.testing.process import BrokerProcess

__all__ = ["Broker", "BrokerProcess"]
