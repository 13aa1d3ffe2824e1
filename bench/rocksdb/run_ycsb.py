"""YCSB's own client on embedded RocksDB, by hand.

    python -m bench.rocksdb.run_ycsb -load -P workloada -p rocksdb.create=true -p rocksdb.path=DB
    python -m bench.rocksdb.run_ycsb -t -P workloada -p rocksdb.path=DB -threads 2

The words are YCSB's. The exit code is 3 when no operation succeeded, where YCSB's own is 0.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from bench.rocksdb.peers import YCSB_BINDING, build_ycsb, ycsb_succeeded, ycsb_values


def main(words: Sequence[str]) -> int:
    """Builds the binding where that is needed and runs the client."""
    command = ["java", "-cp", build_ycsb(), "site.ycsb.Client", "-db", YCSB_BINDING, *words]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    sys.stdout.write(finished.stdout)
    return finished.returncode or (0 if ycsb_succeeded(ycsb_values(finished.stdout)) else 3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
