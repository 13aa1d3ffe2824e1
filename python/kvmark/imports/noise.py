"""Lines that a logger, a virtual machine or a shell left among a tool's own.

They are known by how they begin, so that a line of the tool's own that is damaged, or into which
another was written, is never taken for one.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_noise", "is_prompt"]

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
_LONGEST: Final = 100_000


def is_noise(line: str) -> bool:
    """Whether a line is a logger's, a virtual machine's or a shell's."""
    return len(line) <= _LONGEST and _NOISE.fullmatch(line) is not None


def is_prompt(line: str) -> bool:
    """Whether a line is a shell's: what follows the last one isn't a tool's."""
    return len(line) <= _LONGEST and re.fullmatch(_PROMPT, line) is not None
