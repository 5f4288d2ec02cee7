"""`penstock` as it is installed for users: without hypothesis, which kio imports where it finds it.

That takes 0.3 s of CPU time and 8 MB, which benchmarks would count as Penstock's.
"""

import sys

sys.modules["hypothesis"] = None  # type: ignore[assignment]

from penstock.cli.main import main  # noqa: E402

main()
