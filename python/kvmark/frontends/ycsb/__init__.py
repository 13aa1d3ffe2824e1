"""YCSB: its property files, its sequence of workloads, its text output, its results."""

from typing import Final

from kvmark.frontends import FrontEnd

FRONT_END: Final = FrontEnd(
    "ycsb",
    "ycsb",
    "Runs YCSB's sequence of workloads and prints its table.",
    {"documents": "execution", "run_study": "execution"},
    {
        "ycsb-published": (
            "What do RocksDB, or the system of --system, do under YCSB's sequence with the sizes of"
            " the published comparison: 1000 to 10000 records, 5 to 20 repetitions?"
        )
    },
)
