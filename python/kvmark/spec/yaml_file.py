"""YAML into plain values that remember where they stood, and models' complaints into sentences.

The text is composed into nodes, never into objects, so a file can name no type and run no code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.representer import SafeRepresenter

from kvmark.errors import SpecError
from kvmark.spec import quantity
from kvmark.spec.suggest import did_you_mean, is_text, shown, without_credentials

_LARGEST_FILE: Final = 1 << 20
WIDTH: Final = 100
"""Columns of a written file."""
MOST_NODES: Final = 100_000
_TAG: Final = "tag:yaml.org,2002:"
_MUST_BE: Final = {
    **dict.fromkeys(
        ("model_type", "model_attributes_type", "dict_type"), "a mapping of keys to values"
    ),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    "string_pattern_mismatch": "letters, digits, - and _, a letter first",
}
_ONLY_TEXT_IN_1_2: Final = re.compile(r"(?i)y|n|yes|no|on|off|[-+]?\d[\d_.:e+-]*|=|<<")
"""Other values in YAML 1.1, which Ray and Kubernetes read."""
_PROPERTIES: Final = re.compile(r"([&!]\S*\s+)*")

Path_ = tuple[str | int, ...]
Mistake: TypeAlias = tuple[str | Path_, str]
"""A key of a mapping, or the path of one further down, and what is wrong there."""
M = TypeVar("M", bound=BaseModel)


class _Representer(SafeRepresenter):
    """Writes texts so that YAML 1.1 has them as texts, too."""

    def represent_str(self, data: str) -> ScalarNode:
        style = '"' if _ONLY_TEXT_IN_1_2.fullmatch(data) else None
        node: ScalarNode = self.represent_scalar(f"{_TAG}str", data, style=style)
        return node


_Representer.add_representer(str, _Representer.represent_str)


def yaml_text(values: Mapping[str, Any], width: int | None = WIDTH) -> str:
    """A file with these values, in their order; without a width it has one on each line."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style, yaml.width = (None, width) if width else (False, _LARGEST_FILE)
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    text = StringIO()
    yaml.dump(dict(values), text)
    return text.getvalue()


class Strict(BaseModel):
    """A part of a file the user writes: frozen, and a key that it does not know is an error."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _knows_every_key(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for key in value:
            if key not in known:
                text = str(key)
                raise at_key(text, f"unknown key {shown(text)}{did_you_mean(text, known)}")
        return value

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        mistake = next(iter(self._mistakes()), None)
        if mistake is not None:
            raise at_key(*mistake)
        return self

    def _mistakes(self) -> Iterable[Mistake]:
        """What is wrong with values that are right alone: the key of each, and a sentence."""
        return ()


def at_key(key: str | Path_, sentence: str) -> PydanticCustomError:
    """A complaint about one key of the mapping that is being checked, or one further down."""
    return PydanticCustomError("at_key", "{sentence}", {"key": key, "sentence": sentence})


def complaint(sentence: str) -> PydanticCustomError:
    """A complaint about a value that is being checked."""
    return PydanticCustomError("quantity", "{s}", {"s": sentence})


def parsed(value: object, parse: Callable[[str], Any]) -> Any:
    """What a user's text means, for a field."""
    try:
        return parse(str(value))
    except SpecError as problem:
        raise complaint(problem.message) from None


def wrapped(kind: type, wrap: Callable[[Any], object]) -> BeforeValidator:
    """Reads a bare value of a type as what it stands for."""
    return BeforeValidator(lambda value: wrap(value) if isinstance(value, kind) else value)


def _quantity(parse: Callable[[str], Any], meaning: str) -> BeforeValidator:
    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise complaint(f"{shown(str(value))} is not {meaning}")
        return parsed(value, parse)

    return BeforeValidator(read)


Count = Annotated[int, _quantity(quantity.count, "a count")]
"""A count as a number or as text like `10k`."""
Duration = Annotated[int, _quantity(quantity.duration_ns, "a duration")]
"""A duration as text like `5ms`, in nanoseconds."""
StallLimit = Annotated[int, _quantity(quantity.stall_limit_ns, "a stall limit")]
"""A duration as text like `30s`, in nanoseconds, or `off`, which is 0."""
Size = Annotated[int, _quantity(quantity.size_bytes, "a size")]
"""A size as a number of bytes or as text like `1KiB`."""


def read_text(path: Path) -> str:
    """The text of a small UTF-8 file, or a `SpecError` that names it."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise SpecError("cannot be read: it is no regular file", file=str(path))
    raw = read_small(path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise SpecError("is not UTF-8 text", file=str(path), line=line) from problem


def read_small(path: Path) -> bytes:
    """The content of a small file, or a `SpecError` that names it."""
    try:
        raw = path.read_bytes()
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise SpecError(f"cannot be read: {reason}", file=str(path)) from problem
    except ValueError as problem:  # a NUL in the path
        raise SpecError(f"{shown(str(path))} is not the name of a file") from problem
    if len(raw) > _LARGEST_FILE:
        raise SpecError("is larger than 1 MiB, which no such file is", file=str(path))
    return raw


def parse_yaml(text: str, file: str, model: type[M]) -> M:
    """One YAML document as a model; the first complaint becomes a `SpecError` with its place."""
    return Document(text, file).check(model)


class Document:
    """The plain values of a YAML file, from which models and complaints with places can be made."""

    def __init__(self, text: str, file: str) -> None:
        self._text, self._file = text, file
        #: The nodes of each value: its key, or for lack of one itself, and the value.
        self._nodes: dict[Path_, tuple[Node, Node]] = {}
        #: All scalars by their place in the text, keys too.
        self._scalars: dict[tuple[int, int], ScalarNode] = {}
        root = _composed(text, file)
        try:
            self.value = self._read(root, (), root)
        except RecursionError:
            raise SpecError("nested too deeply, or an alias within itself", file=file) from None

    def check(self, model: type[M], *path: str) -> M:
        """The document, or the value at a path in it, as a model.

        Raises `SpecError` with the place of the error.
        """
        value: Any = self.value
        for key in path:
            value = value[key]
        try:
            return model.model_validate(value)
        except ValidationError as problem:
            detail = problem.errors()[0]
            found = _known_path(self.value, (*path, *detail["loc"]))
            node = self._nodes[found][1]
            if detail["type"] == "at_key":
                key = detail["ctx"]["key"]
                below = (*found, *((key,) if isinstance(key, str) else key))
                node = self._nodes.get(below, (node, node))[0]
            raise self._at(node, _sentence(found, detail)) from None

    def check_part(self, value: object, model: type[M], *path: str | int) -> M:
        """A value that was made from the document as a model; complaints are placed at a path."""
        try:
            return model.model_validate(value)
        except ValidationError as problem:
            detail = problem.errors()[0]
            sentence = _sentence(_known_path(value, detail["loc"]), detail)
            raise self.problem(sentence, *path) from None

    def text_without(self, systems: Iterable[Path_]) -> str:
        """The file's text without credentials: of the systems at these paths, and in comments."""
        parts, end = [], 0
        hidden = {id(self._nodes[_known_path(self.value, path)][1]) for path in systems}
        for span, node in sorted(self._scalars.items()):
            own, said = self._text[span[0] : span[1]], without_credentials(str(node.value))
            if id(node) in hidden and said != node.value:
                # An anchor before it stays, and a block's last line ends.
                anchor = _PROPERTIES.match(own)
                ending = "\n" if own.endswith("\n") else ""
                own = f"{anchor[0] if anchor else ''}{json.dumps(said)}{ending}"
            parts += [_comments(self._text[end : span[0]]), own]
            end = span[1]
        return "".join([*parts, _comments(self._text[end:])])

    def problem(self, sentence: str, *path: str | int) -> SpecError:
        """A complaint about the value at a path, or about the nearest one above it."""
        return self._at(self._nodes[_known_path(self.value, path)][0], sentence)

    def _read(self, node: Node, path: Path_, key: Node) -> object:
        if len(self._nodes) >= MOST_NODES:
            raise self._at(node, "too many values; are aliases nested?")
        self._nodes[path] = key, node
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if isinstance(node, SequenceNode):
            return [self._read(item, (*path, index), item) for index, item in enumerate(node.value)]
        if not isinstance(node, MappingNode):
            raise self._at(node, "not a value, a list or a mapping")
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise self._at(key_node, "a key must be a word")
            name = self._readable(key_node)
            if name in values:
                raise self._at(key_node, f"key {shown(name)} is given twice")
            values[name] = self._read(value_node, (*path, name), key_node)
        return values

    def _readable(self, node: ScalarNode) -> str:
        """The text of a scalar, whose place is kept."""
        self._scalars[node.start_mark.index, node.end_mark.index] = node
        text = str(node.value)
        if not is_text(text):
            raise self._at(node, "an escape is half of a surrogate pair")
        return text

    def _scalar(self, node: ScalarNode) -> object:
        text, tag = self._readable(node), str(node.tag)
        try:
            match tag.removeprefix(_TAG):
                case "str" | "timestamp":
                    return text
                case "null":
                    return None
                case "bool":
                    return text.lower() == "true"
                case "int":
                    return int(text.replace("_", ""), 0)
                case "float":
                    return float(text.replace("_", "").replace(".inf", "inf"))
        except ValueError:
            return text
        raise self._at(node, f"the tag {shown(tag)} is not used here")

    def _at(self, node: Node, sentence: str) -> SpecError:
        mark = node.start_mark
        return SpecError(sentence, file=self._file, line=mark.line + 1, column=mark.column + 1)


def _known_path(value: Any, loc: Iterable[int | str]) -> Path_:
    """The place in a value; a model's union tags are not places and are left out."""
    path: Path_ = ()
    for part in loc:
        is_key = isinstance(value, Mapping) and part in value
        is_index = isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)
        if is_key or is_index:
            value, path = value[part], (*path, part)
    return path


def _comments(text: str) -> str:
    """What stands between values, whose comments may name systems too."""
    lines = (line.partition("#") for line in text.split("\n"))
    return "\n".join(f"{before}{sign}{without_credentials(told)}" for before, sign, told in lines)


def _composed(text: str, file: str) -> Node:
    try:
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        what = problem.problem or problem.context or "it cannot be parsed"
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        what = " ".join(what.split())
        raise SpecError(f"not YAML: {what}", file=file, line=line, column=column) from None
    except RecursionError:
        raise SpecError("not YAML: nested too deeply", file=file) from None
    except (YAMLError, ValueError, LookupError, TypeError, AttributeError) as problem:
        # Broken input makes the parser fail in several ways; each is a fault of the text.
        what = " ".join(str(problem).split())
        raise SpecError(f"not YAML: {shown(what)[1:-1]}", file=file) from None
    if node is None:
        raise SpecError("is empty", file=file)
    return node


def _sentence(path: Path_, detail: ErrorDetails) -> str:
    names = [str(part) for part in path if isinstance(part, str)]
    # A key can be any text.
    name = shown(names[-1])[1:-1] if names else "the file"
    context = detail.get("ctx", {})
    given = detail["input"]
    match detail["type"]:
        case "at_key":
            return str(context["sentence"])
        case "missing":
            return f"the key {shown(str(detail['loc'][-1]))} is missing"
        case "quantity" | "value_error":
            return f"{name}: {detail['msg'].removeprefix('Value error, ')}"
        case "union_tag_invalid":
            known = [tag.strip().strip("'") for tag in str(context["expected_tags"]).split(",")]
            tag = str(context["tag"])
            what = str(context["discriminator"]).strip("'")
            return f"{name}: unknown {what} {shown(tag)}{did_you_mean(tag, known)}"
        case "union_tag_not_found":
            return f"{name}: the key {context['discriminator']} is missing"
        case "literal_error":
            known = str(context["expected"]).replace(" or ", ",").split(",")
            hint = did_you_mean(str(given), [word.strip().strip("'") for word in known])
            return f"{name}: unknown value {shown(str(given))}{hint}"
        case "too_short" | "string_too_short":
            return f"{name} must not be empty"
    if detail["type"] in _MUST_BE:
        return f"{name} must be {_MUST_BE[detail['type']]}, not {_kind(given)}"
    wanted = detail["msg"].replace("Input should", "must").replace("String should", "must")
    return f"{name} {wanted[0].lower() + wanted[1:]}, not {_kind(given)}"


def _kind(given: object) -> str:
    if given is None:
        return "nothing"
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, list | tuple):
        return "a list"
    return "a mapping" if isinstance(given, dict) else shown(str(given))
