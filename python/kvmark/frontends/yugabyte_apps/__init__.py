"""YugabyteDB's sample applications: their flags, workloads, published table and results."""

from typing import Final

from kvmark.frontends import FrontEnd

FRONT_END: Final = FrontEnd(
    "yugabyte_apps",
    "app",
    "Runs a YugabyteDB sample application and prints the table of its published report.",
    {
        "documents": "table",
        "without_secrets": "flags",
        "commands_per_operation": "table",
        "study_sections": "table",
    },
)
