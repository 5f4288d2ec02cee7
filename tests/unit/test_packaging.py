"""The two distributions of this repository have one version."""

import tomllib
from pathlib import Path

import penstock
import penstock_client

ROOT = Path(__file__).parents[2]


def test_both_distributions_have_the_same_version_and_are_pinned_to_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    pins = {each.rpartition("==")[2] for each in requirements if each.startswith("penstock-client")}
    assert pins == {penstock.__version__} == {penstock_client.__version__}
