"""A file of results as text, and its numbers, refused with a sentence where they can't be read.

Nothing here knows a format. A file is read whole, so its size is bounded; its lines keep their
numbers, so that each error has its line. What terminals and editors leave in a text is taken
off here, once for all formats: a byte order mark, line ends of Windows, colours, and progress that
was written over itself.

Lines that a logger, a virtual machine or a shell left are known by how they begin, so that a
damaged line of the tool's own is never taken for one. A number is read one way only: what may mean
two things, such as `1,234`, is read where the format leaves no doubt and refused elsewhere, because
a figure that is silently a thousand times too small would be worse than none.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from kvmark.errors import ImportFileError
from kvmark.foreign_text import printable

LARGEST_BYTES: Final = 64 << 20
"""A day of cassandra-stress's lines has a quarter of this."""

_PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "Zstandard",
}
_BOM: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"
# Colours, erased ends of lines, a hidden cursor, pasted text, a window's title: they change how a
# line looks. What moves the cursor changes where a text stands, and stays to be refused.
_LOOKS: Final = re.compile(
    r"\x1b(?:\[[0-9;:]*[mK]|\[\?(?:25|2004)[hl]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\([B0])"
)
# YCSB's text begins with a bracket too.
_JSON: Final = re.compile(r"\s*(?:\{|\[\s*[{\]])")
_SHOWN: Final = 40

_LEVEL: Final = r"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)"
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:[.,:]\d{1,9})?"
_DATE: Final = r"(?:\d{4}-\d\d-\d\d[T ])"
_CLASS: Final = r"(?:[a-z_][\w$]{0,80}\.){1,20}[A-Z][\w$]{0,120}"
# A shell's prompt, with the command that was typed.
_PROMPT: Final = r"(?:\[?[\w.-]{1,80}@[\w.-]{1,80}[^$#]{0,200}[$#]|[$>])(?: .*)?"

_NOISE: Final = re.compile(
    "|".join(
        (
            # WARN  [cluster1-nio-worker-1] 2026-11-21 03:27:16,849 RequestHandler.java:303 - Query
            rf"{_LEVEL}\s+\[[^\]]{{0,200}}\]\s+{_DATE}?{_CLOCK}\s.*",
            # 2026-11-21 03:27:16,849 [main] WARN com.datastax.oss.driver - Query
            rf"\[?{_DATE}?{_CLOCK}\S{{0,10}}\s+(?:\[[^\]]{{0,200}}\]\s+)?\[?{_LEVEL}\b.*",
            # 13873 [Thread-18] INFO com.example.Client - said
            rf"(?:\d{{1,15}} )?\[[^\]]{{1,200}}\] {_LEVEL} .*",
            # Nov 21, 2026 3:27:16 AM com.example.Client connect
            r"[A-Z][a-z]{2} \d{1,2}, \d{4} \d{1,2}:\d\d:\d\d [AP]M .*",
            rf"{_LEVEL}: .*|log4j:{_LEVEL} .*|SLF4J(?:\([A-Z]\))?: .*",
            # The virtual machine.
            r"(?:OpenJDK|Java HotSpot|Eclipse OpenJ9)\b.{0,60} warning: .*",
            r"Picked up (?:_?JAVA_|JDK_)\w{1,40}: .*|CompileCommand: .*|CompilerOracle: .*",
            r"\[\d{1,9}\.\d{1,6}s\](?:\[[^\]]{1,80}\]){0,4} .*",
            # Exceptions and where they come from.
            rf"(?:Exception in thread \"[^\"]{{0,200}}\" )?{_CLASS}(?:Exception|Error)\b(?:: .*)?",
            r"(?:Caused by|Suppressed): .*",
            r"\s+at [\w.$/@<> -]{1,400}\([^()]{0,200}\)(?: ~?\[.*\])?",
            r"\s+\.\.\. \d{1,6} (?:more|common .*)",
            _PROMPT,
        )
    )
)
_LONGEST_NOISE: Final = 100_000

NUMBER: Final = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
"""A number as a pattern."""

_PLAIN: Final = re.compile(NUMBER)
_GROUPED: Final = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_COMMA: Final = re.compile(r"-?\d+,\d+|-?\d{1,3}(?:\.\d{3})+,\d+")
_UNKNOWN: Final = frozenset({"nan", "inf", "infinity", "∞", "\N{REPLACEMENT CHARACTER}", "n/a"})
_SPAN: Final = re.compile(r"(\d{1,9}):([0-5]\d):([0-5]\d)")
_LONGEST_NUMBER: Final = 40
_LARGEST: Final = 2.0**64
"""No tool counts further; beyond it a figure is a damaged one."""


@dataclass(frozen=True)
class Source:
    """The text of a file under the name that the user gave it."""

    name: str
    data: bytes
    text: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines without their ends, whether those are of Unix or of Windows."""
        # A terminal shows the end of a line over which progress was written.
        ends = (line.rstrip("\r").rpartition("\r")[2] for line in self._raw_lines)
        return tuple(end.removeprefix(_BOM) for end in ends)

    @cached_property
    def _raw_lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n") if self.text else []

    @cached_property
    def noise(self) -> frozenset[int]:
        """The numbers of lines that no tool of measurement wrote, counted from 1."""
        return frozenset(line for line, text in enumerate(self.lines, 1) if is_noise(text))

    @cached_property
    def json_text(self) -> str:
        """The text with those lines empty, which no line of JSON is like; their numbers stay."""
        if not self.noise:
            return self.text
        lines = enumerate(self.lines, 1)
        return "\n".join("" if line in self.noise else text for line, text in lines)

    @cached_property
    def document(self) -> Any:
        """The JSON value that the file is; none when it doesn't look like one.

        Raises:
            ImportFileError: it looks like one and can't be read.
        """
        if not _JSON.match(self.json_text):
            return None
        try:
            return json.loads(self.json_text)
        except json.JSONDecodeError as problem:
            message = f"the JSON can't be read ({problem.msg}): the file may be cut off or damaged"
            raise self.error(problem.lineno, message) from problem
        except (RecursionError, ValueError) as problem:
            raise self.error(1, "the JSON can't be read: no tool writes such values") from problem

    def ends(self) -> None:
        """Makes sure that the last line isn't part of one.

        Raises:
            ImportFileError: it has no end.
        """
        if not self.text.endswith("\n") and not _is_prompt(self.lines[-1]):
            message = (
                "the last line has no end, so it may be cut off: export the file again, or end the"
                " line if it is whole"
            )
            raise self.error(len(self.lines), message)

    def never_overwritten(self) -> None:
        """Makes sure that no line was written over: where each counts, one may have been lost.

        Raises:
            ImportFileError: a carriage return stands within a line.
        """
        for number, raw in enumerate(self._raw_lines, 1):
            if "\r" in raw.strip("\r"):
                message = (
                    "a carriage return stands within the line: the file is damaged, or has two"
                    " kinds of line ends"
                )
                raise self.error(number, message)

    def error(self, line: int | None, message: str) -> ImportFileError:
        """A complaint about a line, counted from 1, or about the whole file."""
        return ImportFileError(printable(message), file=self.name, line=line)


def read_source(path: Path) -> Source:
    """The file as text.

    Raises:
        ImportFileError: it isn't there, or no text, or too large.
    """
    name = str(path)
    try:
        if not path.is_file():
            what = "isn't a file" if path.exists() else "isn't there"
            raise ImportFileError(f"it {what}: name a file of results", file=name)
        size_bytes = path.stat().st_size
        if size_bytes > LARGEST_BYTES:
            raise ImportFileError(
                f"it has {size_bytes >> 20} MiB and at most {LARGEST_BYTES >> 20} MiB are read:"
                " import the results without the log around them",
                file=name,
            )
        data = path.read_bytes()
    except OSError as problem:
        message = f"it can't be read because {problem.strerror}"
        raise ImportFileError(message, file=name) from problem
    return Source(name, data, _text(name, data))


def shown(text: str) -> str:
    """Part of a file for a sentence: short, and nothing in it commands a terminal."""
    short = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"'{printable(short)}'"


def _text(name: str, data: bytes) -> str:
    if not data.strip():
        raise ImportFileError("it is empty: there are no results to import", file=name)
    for magic, packer in _PACKED.items():
        if data.startswith(magic):
            raise ImportFileError(f"it is compressed with {packer}: unpack it first", file=name)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        message = "it is text in UTF-16: convert it to UTF-8 first"
        raise ImportFileError(message, file=name, line=1)
    at = data.find(b"\0")
    if at >= 0:
        message = "it holds bytes that no text has: give the tool's text, JSON or CSV output"
        raise ImportFileError(message, file=name, line=data.count(b"\n", 0, at) + 1)
    try:
        return _LOOKS.sub("", data.decode("utf-8").removeprefix(_BOM))
    except UnicodeDecodeError as problem:
        message = f"byte {data[problem.start]:#04x} isn't UTF-8: convert the file to UTF-8 first"
        line = data.count(b"\n", 0, problem.start) + 1
        raise ImportFileError(message, file=name, line=line) from problem


def is_noise(line: str) -> bool:
    """Whether a line is a logger's, a virtual machine's or a shell's."""
    return len(line) <= _LONGEST_NOISE and _NOISE.fullmatch(line) is not None


def _is_prompt(line: str) -> bool:
    """Whether a line is a shell's: what follows the last one isn't a tool's."""
    return len(line) <= _LONGEST_NOISE and re.fullmatch(_PROMPT, line) is not None


def number(source: Source, line: int, text: str) -> int | float | None:
    """The number of a text; none where the tool itself had none (`NaN`).

    Raises:
        ImportFileError: it is no number, one beyond all bounds, or one with a decimal comma.
    """
    plain = text.strip()
    if plain.lstrip("-+").lower() in _UNKNOWN:
        return None
    if len(plain) <= _LONGEST_NUMBER and _PLAIN.fullmatch(plain):
        value = float(plain)
        if abs(value) <= _LARGEST:
            return int(plain) if plain.lstrip("-").isdigit() else value
        message = f"{shown(plain)} is larger than anything that is measured: the file is damaged"
        raise source.error(line, message)
    if _COMMA.fullmatch(plain):
        message = (
            f"{shown(plain)} has a decimal comma: run the tool with LC_ALL=C, or export with points"
        )
        raise source.error(line, message)
    raise source.error(line, f"{shown(plain)} stands where a number belongs: the file is damaged")


def grouped(source: Source, line: int, text: str) -> int | float | None:
    """A number that may have commas between its thousands.

    Raises:
        ImportFileError: as :func:`number` says.
    """
    is_grouped = _GROUPED.fullmatch(text.strip())
    return number(source, line, text.replace(",", "") if is_grouped else text)


def json_number(source: Source, place: str, value: Any) -> int | float | None:
    """A number of a JSON document; none for null, and where the tool itself had none (`NaN`).

    Raises:
        ImportFileError: it is something else, or too large to be a figure.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise source.error(None, f"{place} is {shown(str(value))} and not a number")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if abs(value) > _LARGEST:
        message = f"{place} is larger than anything that is measured: the file is damaged"
        raise source.error(None, message)
    return value


def clock_s(source: Source, line: int, text: str) -> int:
    """Seconds of `00:01:30`.

    Raises:
        ImportFileError: it isn't of that form.
    """
    found = _SPAN.fullmatch(text.strip())
    if found is None or len(found[1]) > 6:
        raise source.error(line, f"{shown(text)} stands where hours:minutes:seconds belong")
    return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
