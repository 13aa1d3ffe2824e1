"""Marked blocks of Markdown files."""

import pytest

from kvmark.errors import SpecError
from kvmark.report.document_blocks import blocks, filled

TEXT = """# Title

before
<!-- kvmark: table tag=nightly workload="a, b" -->
old
<!-- /kvmark -->
between
```
<!-- kvmark: table -->
```
<!-- kvmark: screen -->
<!-- /kvmark -->
after
"""


def test_a_block_says_its_kind_its_options_and_its_line() -> None:
    first, second = blocks(TEXT)
    assert (first.line, first.kind) == (4, "table")
    assert first.options == {"tag": "nightly", "workload": "a, b"}
    assert (second.line, second.kind, second.options) == (11, "screen", {})
    # One within a fence is text.
    assert blocks("````md\n```\n<!-- kvmark: table -->\n```\n````\n") == ()


def test_filling_blocks_leaves_every_other_byte_as_it_is() -> None:
    found = blocks(TEXT)
    made = filled(TEXT, found, ["new", "two\nlines"])
    parts = [made[block.start : block.end] for block in blocks(made)]
    assert parts == ["\nnew\n\n", "\ntwo\nlines\n\n"]
    assert filled(made, blocks(made), ["", ""]).replace("\n", "") == TEXT.replace(
        "old", ""
    ).replace("\n", "")
    assert filled(made, blocks(made), ["new", "two\nlines"]) == made
    # Lines end as the file's do.
    text = TEXT.replace("\n", "\r\n")
    made = filled(text, blocks(text), ["one\ntwo", "three"])
    assert made.count("\n") == made.count("\r\n")


@pytest.mark.parametrize(("text", "line"), [
    ("<!-- kvmark: table -->\n", 1),
    ("x\n<!-- /kvmark -->\n", 2),
    ("<!-- kvmark: table -->\n<!-- kvmark: table -->\n<!-- /kvmark -->\n", 2),
    ("<!-- kvmark: table nothing -->\n<!-- /kvmark -->\n", 1),
    ('<!-- kvmark: table tag="x -->\n<!-- /kvmark -->\n', 1),
])  # fmt: skip
def test_a_mark_that_can_not_be_understood_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(SpecError) as refused:
        blocks(text)
    assert refused.value.line == line
