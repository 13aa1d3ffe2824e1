"""Saved datasets: `kvmark down --save`, `kvmark up --from`, and their removal."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.testbed import SAVED, postgres, saved
from kvmark.testbed.control import describe, take_down
from kvmark.testbed.state import Testbed
from programs import needs
from redis_testbeds import FIRST, Ask, Run, Up

WORDS = "up redis --from loaded"


@pytest.fixture
def loaded(root: Path, up: Up, ask: Ask, kvmark: Run) -> Path:
    """The folder of a saved dataset with one key, whose testbed is down."""
    ask(up(), FIRST, "SET", "a", "saved")
    code, out, _ = kvmark("down", "redis", "--save", "loaded")
    again = f"kvmark {WORDS.replace('redis', 'redis --new')}"
    assert (code, out.splitlines()[1]) == (
        0,
        f"Saved 1 keys; start another testbed with it: {again}",
    )
    return root / SAVED / "loaded"


def test_a_server_that_was_saved_keeps_its_data_in_memory_only(
    loaded: Path, up: Up, ask: Ask
) -> None:
    assert (loaded / FIRST / "dump.rdb").exists()
    assert ask(up(), FIRST, "GET", "a") is None


def test_the_line_after_saving_has_the_options_that_the_data_need(up: Up, kvmark: Run) -> None:
    up(appendonly=True)
    _, out, _ = kvmark("down", "redis", "--save", "mine")
    assert out.splitlines()[1].endswith("kvmark up redis --new --from mine --appendonly yes")


def test_a_link_in_the_place_of_a_dataset_is_not_followed(loaded: Path, kvmark: Run) -> None:
    (loaded.parent / "link").symlink_to(loaded)
    code, _, err = kvmark("down", "saved:link", "--remove")
    assert (code, loaded.exists()) == (2, True), err


@pytest.mark.parametrize("there", ["file", "folder"])
def test_a_name_that_something_else_has_is_refused_before_servers_stop(
    root: Path, up: Up, ask: Ask, kvmark: Run, there: str
) -> None:
    made = up()
    place = root / SAVED / "mine"
    place.parent.mkdir()
    place.touch() if there == "file" else place.mkdir()
    code, _, err = kvmark("down", "redis", "--save", "mine")
    assert (code, "'mine' already" in err) == (2, True), err
    assert ask(made, FIRST, "PING") == "PONG"


@pytest.mark.parametrize(
    ("holder", "options"),
    [
        (FIRST, {}),
        (FIRST, {"appendonly": True, "replicas": 1}),
        # The slot of the key is in the second half.
        ("primary-2", {"cluster": 2, "replicas": 1}),
    ],
)
def test_testbeds_begin_with_a_saved_dataset_and_stay_apart(
    root: Path, up: Up, ask: Ask, holder: str, options: dict[str, Any]
) -> None:
    made = up(**options)
    ask(made, holder, "SET", "a", "saved")
    (down,) = take_down(root, "redis", save="loaded", remove=True)
    assert [path.name for path in root.iterdir()] == [SAVED]
    first = up(name="first", dataset="loaded", **options)
    ask(first, holder, "SET", "a", "changed")
    second = up(name="second", dataset="loaded", **options)
    assert ask(second, holder, "GET", "a") == "saved"
    assert ask(first, holder, "GET", "a") == "changed"
    dataset = describe(second)["dataset"]
    assert down.saved is not None
    assert (dataset, dataset["records"]) == (asdict(down.saved), "1 keys")
    assert dataset == describe(first)["dataset"]
    assert len(dataset["id"]) == 32


def test_a_database_begins_with_saved_rows_and_without_a_password(root: Path) -> None:
    needs("postgres")

    def up(**options: Any) -> Testbed:
        settings = (("shared_buffers", "16MB"),)
        return postgres.up(postgres.PostgresOptions(settings=settings, **options), root)

    def ask(testbed: Testbed, statement: str) -> Any:
        return postgres.connect(testbed, testbed.nodes[0]).ask(statement)

    ask(up(), "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
    take_down(root, "postgres", save="loaded")
    back = up(dataset="loaded")
    assert ask(back, "SELECT n FROM t") == [{"n": "7"}]
    refused = partial(pytest.raises, UsageError, match="the data of postgres has the password in")
    with refused():
        up(password=Secret("open sesame"), dataset="loaded")
    up(password=Secret("open sesame"), name="private")
    with refused():
        take_down(root, "private", save="other")


def test_datasets_are_listed_and_removed(loaded: Path, kvmark: Run) -> None:
    assert "\nsaved:loaded  1 keys of redis " in kvmark("up")[1]
    (listed,) = json.loads(kvmark("up", "--json")[1])["datasets"]
    assert listed == json.loads((loaded / "testbed.json").read_text())["dataset"]
    (loaded / "mine").touch()
    assert (
        f"{loaded / 'mine'} was not made by kvmark" in kvmark("down", "saved:loaded", "--remove")[2]
    )
    (loaded / "mine").unlink()
    assert kvmark("down", "saved:loaded", "--remove")[:2] == (0, f"Removed {loaded}\n")
    assert "saved:" not in kvmark("up")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("down redis --save loaded", "there is a saved dataset 'loaded' already: give another"
                                     " name, or remove it with kvmark down saved:loaded --remove"),
        ("down redis --save other", "testbed 'redis' isn't up, and data is saved while its"),
        ("down redis --save ../other", "'../other' can't be the name of a saved dataset: use"),
        ("down --save other", "save: name the testbed, as in kvmark down TESTBED --save NAME"),
        ("down saved:loaded", "saved:loaded is a saved dataset, not a testbed: remove it with"),
        ("down saved:../redis --remove", "there is no saved dataset '../redis' in"),
        (WORDS, "--from says something else than testbed 'redis' was made with (none): leave"),
        ("up redis --new --from other", "there is no saved dataset 'other' in"),
        (f"{WORDS} --new --replicas 1", "dataset 'loaded' was saved with replicas 0, and this"
                                        " testbed has 1: give both the same --replicas"),
        (f"{WORDS} --new --appendonly yes", "dataset 'loaded' was saved with appendonly no, and"),
        ("up valkey --server redis-server --from loaded",
         "dataset 'loaded' is of redis, and not of valkey"),
        ("up memcached --server true --from loaded", "memcached keeps no data on the disk"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence_and_changes_nothing(
    loaded: Path, root: Path, words: str, sentence: str, kvmark: Run
) -> None:
    before = sorted(root.rglob("*"))
    code, _, err = kvmark(*words.split())
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"kvmark: {sentence}")
    assert sorted(root.rglob("*")) == before


def test_data_of_another_version_is_refused(loaded: Path, root: Path, kvmark: Run) -> None:
    description = loaded / "testbed.json"
    document = json.loads(description.read_text())
    document["dataset"]["version"] = "6.9"
    description.write_text(json.dumps(document))
    assert "dataset 'loaded' was saved by redis 6.9, and this" in kvmark(*WORDS.split(), "--new")[2]
    (loaded / FIRST / "dump.rdb").write_text("REDIS9999")
    code, _, err = kvmark(*WORDS.split(), "--new")
    assert (code, err.count("\n")) == (2, 1)
    assert "it began with dataset 'loaded', which redis 6.9 wrote: start that version" in err
    assert not (root / "redis-2").exists()


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), "No space left on device", "killed"])
def test_an_incomplete_copy_is_no_dataset_and_is_removed(
    root: Path, up: Up, ask: Ask, kvmark: Run, monkeypatch: pytest.MonkeyPatch, problem: Any
) -> None:
    ask(up(), FIRST, "SET", "a", "saved")

    def copy(command: list[str], _: Any) -> tuple[int, list[str]]:
        (Path(command[-1]) / "dump.rdb").write_text("RED")
        if isinstance(problem, KeyboardInterrupt):
            raise problem
        return 1, [f"cp: {problem}"]

    with monkeypatch.context() as broken:
        broken.setattr(saved, "run_streaming", copy)
        if problem == "killed":
            broken.setattr(saved, "discard_folder", lambda *_: None)
        code, _, err = kvmark("down", "redis", "--save", "loaded")
    assert code == (130 if isinstance(problem, KeyboardInterrupt) else 3), err
    rest = [path for path in (root / SAVED).rglob("*") if path.is_file()]
    assert bool(rest) == (problem == "killed")
    assert "there is no saved dataset 'loaded'" in kvmark(*WORDS.split(), "--new")[2]
    assert "saved:" not in kvmark("up")[1]
    # The testbed has all its data, and can be saved again.
    kvmark("up", "redis")
    assert ask(Testbed.read(root / "redis"), FIRST, "GET", "a") == "saved"
    assert kvmark("down", "redis", "--save", "loaded")[0] == 0
    assert {path.name for path in (root / SAVED).rglob("*") if path.is_file()} == {
        "testbed.json", "dump.rdb",
    }  # fmt: skip
