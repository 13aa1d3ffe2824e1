"""Without a driver's crate, its registration and its testbed's folder the rest stands.

`scripts/without_driver.py` compiles that too, unless it has to be quick.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "without_driver.py"


@pytest.mark.parametrize(
    ("driver", "testbed"), [("driver-resp", "redis"), ("driver-memcached", "memcached")]
)
def test_a_driver_is_taken_out_and_up_offers_the_other_systems(driver: str, testbed: str) -> None:
    told = subprocess.run(
        [sys.executable, str(SCRIPT), driver, "--testbed", testbed, "--quick"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert told.returncode == 0, told.stderr
    assert "--nodes" in told.stdout
    assert testbed not in told.stdout.lower()
