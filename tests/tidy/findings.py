"""What a rule finds, and which files there are to look at."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """A file of the repository: its path from the root, and its text."""

    path: str
    text: str

    @property
    def lines(self) -> list[str]:
        """The lines, without their ends."""
        return self.text.split("\n")

    def find(self, line: int, problem: str) -> "Finding":
        """A finding in this file."""
        return Finding(self.path, line, problem)


@dataclass(frozen=True)
class Finding:
    """A place that breaks a rule, and what is wrong there."""

    path: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}"


def sources(*suffixes: str, under: str = "") -> list[Source]:
    """The text files that are committed or about to be, by suffix and folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = sorted({name for name in listing.split("\0") if name.startswith(under)})
    chosen = [name for name in names if name.endswith(suffixes) and (ROOT / name).is_file()]
    return [Source(name, (ROOT / name).read_text(encoding="utf-8")) for name in chosen]


def report(findings: list[Finding]) -> str:
    """All findings, one a line."""
    return "\n".join(map(str, findings))
