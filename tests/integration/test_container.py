"""The container image: its steps in an empty directory, without a container engine."""

import subprocess
import sys

import pytest

from tests.docs.markdown import ROOT


@pytest.mark.slow
def test_the_steps_of_the_image_build_a_node_that_works() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/container_check.py")], capture_output=True, text=True, timeout=580
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr
    assert done.stdout.endswith("container-check passed\n")
