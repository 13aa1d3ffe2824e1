"""The files that the rules check."""

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUST_COMMENT = re.compile(r"^\s*//.*|\s//\s.*$")


@dataclass(frozen=True)
class Source:
    """A text file of the repository: its path from the root, and its content."""

    path: str
    text: str

    @property
    def is_rust_test(self) -> bool:
        """Whether the whole file is Rust test or example code."""
        *folders, name = self.path.split("/")
        return bool({"tests", "benches", "examples"} & set(folders)) or name == "tests.rs"

    def product_text(self) -> str:
        """Rust without comments and tests, on the same lines; any other text as it is."""
        if not self.path.endswith(".rs"):
            return self.text
        if self.is_rust_test:
            return ""
        lines = []
        in_tests = False
        for line in self.text.split("\n"):
            in_tests = in_tests or line == "#[cfg(test)]"
            lines.append("" if in_tests else RUST_COMMENT.sub("", line))
            in_tests = in_tests and line != "}" and not re.match(r"mod \w+;$", line)
        return "\n".join(lines)


@cache
def repository() -> tuple[Source, ...]:
    """All text files that are committed or can be; this folder's files contain what they forbid."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = []
    for name in sorted(set(names.split("\0"))):
        if (ROOT / name).is_file() and not name.startswith("tests/tidy/"):
            try:
                found.append(Source(name, (ROOT / name).read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
    return tuple(found)
