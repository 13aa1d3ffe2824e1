"""The JSON documents of commands: each has a name, a version and a schema that holds it."""

from __future__ import annotations

import json
from collections.abc import Callable

import jsonschema
import pytest

from known_documents import PUBLISHED, checked
from kvmark.cli import main, output
from kvmark.cli.documents import documents, json_schema

SCHEMA = json_schema()


def test_the_published_schema_is_that_of_the_source() -> None:
    assert json.loads(PUBLISHED.read_text()) == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_page_on_documents_lists_their_commands() -> None:
    page = PUBLISHED.with_name("json.md").read_text()
    for name, one in documents().items():
        assert f"| `{name}` | {', '.join(f'`kvmark {each}`' for each in one.commands)} |" in page


def test_a_value_without_a_json_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="has no form in JSON"):
        output.print_json("serve", {"address": object()})


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "show", "last"),
        ("runs", "history"),
        ("runs", "scaling", "{0}"),
        ("study",),
        ("up",),
        ("down",),
    ],
)
def test_documents_of_commands_have_the_published_schema(
    words: tuple[str, ...], make_run: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [make_run(), make_run(1)]
    assert main([*(word.format(*ids) for word in words), "--json"]) == 0
    assert checked(json.loads(capsys.readouterr().out))
