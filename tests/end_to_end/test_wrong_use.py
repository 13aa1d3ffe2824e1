"""What can't be done is refused: exit code 2, one sentence, no run, no harm."""

import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import PROGRAM, Kvmark, fingerprint, sentence_of

from kvmark.cli import main


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that must stay as it is."""
    folder = tmp_path_factory.mktemp("earlier")
    kvmark = Kvmark(folder, folder / "runs")
    kvmark("run", "ycsb/c", "--system", "null:", "--operations", "100", "-q")
    return folder


@pytest.fixture
def user(earlier: Path, tmp_path: Path) -> Kvmark:
    """Someone with an earlier run."""
    shutil.copytree(earlier / "runs", tmp_path / "runs")
    return Kvmark(tmp_path, tmp_path / "runs")


RUN = ("run", "ycsb/a", "--system", "null:")

WRONG_WORDS = {
    "unknown command": (("rnu",), "'rnu'"),
    "unknown option": ((*RUN, "--cleints", "3"), "--cleints"),
    "option without its value": ((*RUN, "--tag"), "--tag"),
    "too many words": ((*RUN, "ycsb/b"), "ycsb/b"),
    "missing workload": (("run",), "WORKLOAD"),
    "missing system": (("run", "ycsb/a"), "--system"),
    "unknown workload": (("run", "ycsb/q", "--system", "null:"), "'ycsb/q'"),
    "unknown workload to print": (("workloads", "ycsb/q"), "'ycsb/q'"),
    "file that is not there": (("run", "no.yaml", "--system", "null:"), "no.yaml"),
    "unknown kind of system": (("run", "ycsb/a", "--system", "nul:"), "'nul'"),
    "no URL": (("run", "ycsb/a", "--system", "here"), "'here'"),
    "URL without a folder": (("run", "ycsb/a", "--system", "rocksdb:"), "folder"),
    "unknown option of a system": (
        ("run", "ycsb/a", "--system", "sim:?serverz=2"),
        "'serverz'",
    ),
    "bad value of a system's option": (
        ("run", "ycsb/a", "--system", "sim:?servers=none"),
        "'servers'",
    ),
    "unknown option of RocksDB": (
        ("run", "ycsb/a", "--system", "rocksdb:db?bloom=3"),
        "'bloom'",
    ),
    "no fault": ((*RUN, "--fault", "pause n1"), "'pause n1'"),
    "unknown fault": ((*RUN, "--fault", "1s paus n1"), "'pause'"),
    "fault after the measurement": ((*RUN, "--fault", "1h pause n1"), "30s"),
    "fault of a server elsewhere": ((*RUN, "--fault", "1s pause n1"), "kvmark up"),
    "file of faults that is not there": ((*RUN, "--faults", "no.yaml"), "no.yaml"),
    "testbed that is not there": (("run", "ycsb/a", "--system", "up:no"), "'no'"),
    "no testbed at all": (("run", "ycsb/a", "--system", "up:"), "kvmark up"),
    "password as an option": (("run", "ycsb/a", "--system", "redis://h?password=x"), "password"),
    "law of arrivals without a rate": ((*RUN, "--arrival", "poisson"), "--rate"),
    "unknown law of arrivals": ((*RUN, "--rate", "5", "--arrival", "bursty"), "'bursty'"),
    "negative count": ((*RUN, "--clients", "-3"), "'--clients'"),
    "no clients": ((*RUN, "--clients", "0"), "clients"),
    "part of an operation": ((*RUN, "--operations", "1.5"), "'--operations'"),
    "negative rate": ((*RUN, "--rate", "-5"), "'--rate'"),
    "rate of nothing": ((*RUN, "--rate", "0"), "'--rate'"),
    "timeout of nothing": ((*RUN, "--timeout", "0"), "'--timeout'"),
    "timeout of 0 seconds": ((*RUN, "--timeout", "0s"), "timeout"),
    "duration without a unit": ((*RUN, "--duration", "30"), "'--duration'"),
    "bound that is none": ((*RUN, "--until-stderr", "2"), "until-stderr"),
    "seed that is no number": ((*RUN, "--seed", "x"), "'--seed'"),
    "negative seed": ((*RUN, "--seed", "-1"), "seed"),
    "core that is not there": ((*RUN, "--pin", "4095", "--operations", "9"), "4095"),
    "core named twice": ((*RUN, "--pin", "0,0"), "twice"),
    "unknown group": ((*RUN, "--group", "nobody"), "'nobody'"),
    "warm-up of a load": (("run", "ycsb/load", "--system", "null:", "--warmup", "1s"), "warm"),
    "report without a form": ((*RUN, "--report", "x.pdf"), "x.pdf"),
    "report into no folder": ((*RUN, "--report", "no/x.html"), "no"),
    "unknown form of an export": (("runs", "export", "--format", "xml"), "'xml'"),
    "no runs to list": (("runs", "--limit", "0"), "'--limit'"),
    "unknown run": (("show", "nosuch"), "'nosuch'"),
    "unknown step": (("ycsb", "--workloads", "load,z"), "'z'"),
    "step without its records": (("ycsb", "--workloads", "load,delete,a"), "reload"),
    "no records": (("ycsb", "--records", "0"), "records"),
    "no repetition": (("ycsb", "--repetitions", "0"), "repetitions"),
    "load and transactions": (("ycsb", "-load", "-t"), "-load"),
    "unknown property": (("ycsb", "-p", "recordcuont=5"), "'recordcuont'"),
    "property without a value": (("ycsb", "-p", "recordcount"), "recordcount"),
    "refused property": (("ycsb", "-p", "measurementtype=raw"), "'measurementtype'"),
    "binding of another system": (("ycsb", "-db", "redis"), "redis"),
    "property file that is not there": (("ycsb", "-P", "none"), "none"),
}


@pytest.mark.parametrize("wrong", WRONG_WORDS)
def test_wrong_words_are_refused_by_name(
    user: Kvmark, wrong: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # In this process: there are many, and a new one takes a second.
    monkeypatch.chdir(user.folder)
    monkeypatch.setenv("KVMARK_RUNS", str(user.runs))
    before = fingerprint(user.folder)
    words, named = WRONG_WORDS[wrong]
    assert main(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert named in sentence_of(err)
    assert fingerprint(user.folder) == before


def test_wrong_words_are_refused_by_the_program_too(user: Kvmark) -> None:
    assert "'ycsb/q'" in user.refuses("run", "ycsb/q", "--system", "null:")


def test_a_wrong_key_of_a_workload_is_told_with_its_place(user: Kvmark) -> None:
    text = "name: mine\ndataset: {records: 10}\ngroups:\n  - name: all\n    mixx: {read: 1}\n"
    (user.folder / "mine.yaml").write_text(text)
    sentence = user.refuses("run", "mine.yaml", "--system", "null:")
    assert sentence.startswith("mine.yaml:5:")
    assert "unknown key 'mixx'" in sentence
    assert "did you mean 'mix'?" in sentence


def test_a_wrong_property_of_a_file_is_told_with_its_place(user: Kvmark) -> None:
    (user.folder / "workload").write_text("# mine\nrecordcount=100\nreadproportoin=0.5\n")
    sentence = user.refuses("ycsb", "-P", "workload")
    assert sentence.startswith("workload:3:")
    assert "readproportion" in sentence


def test_a_wrong_value_of_a_property_is_told_with_its_place(user: Kvmark) -> None:
    (user.folder / "workload").write_text("recordcount=many\n")
    sentence = user.refuses("ycsb", "-P", "workload")
    assert sentence.startswith("workload:1:")
    assert "'recordcount'" in sentence


def test_more_clients_than_threads_make_sense_are_refused_with_the_reason(user: Kvmark) -> None:
    words = ("--system", f"rocksdb:{user.folder}/db", "--clients", "5000", "-q")
    sentence = user.refuses("run", "ycsb/a", *words)
    assert "5000 clients" in sentence
    assert "1024" in sentence
    assert not (user.folder / "db").exists()


def test_a_refused_run_harms_no_database_that_was_there(user: Kvmark) -> None:
    words = ("run", "ycsb/load", "--system", f"rocksdb:{user.folder}/db", "--records", "50", "-q")
    user(*words)
    before = {path.name for path in (user.folder / "db").glob("*.sst")}
    user.refuses(*words, "--clients", "5000")
    assert (user.folder / "db" / "CURRENT").exists()
    assert {path.name for path in (user.folder / "db").glob("*.sst")} >= before


def test_help_is_an_answer_and_no_error(kvmark: Kvmark) -> None:
    for words in ((), ("--help",)):
        result = kvmark(*words)
        assert "ycsb" in result.out
        assert result.err == ""


@pytest.mark.parametrize("command", ["ycsb", "run", "runs", "show", "runs export"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    out, err = capsys.readouterr()
    assert f"Usage: kvmark {command}" in out
    assert err == ""


def test_the_version_is_told(kvmark: Kvmark) -> None:
    assert kvmark("--version").out.startswith("kvmark 0.")


def test_no_name_commands_the_terminal(kvmark: Kvmark) -> None:
    told = kvmark("runs", "--runs", "\x1b[2Jred", exits=2).err
    assert "\x1b" not in told
    assert "[2Jred" in told


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kvmark-ycsb.html", ("ycsb", "--records", 100, "--workloads", "load")),
        ("kvmark-study.html", ("study", "smoke", "--system", "null:")),
        ("mine.md", ("run", "ycsb/c", "--system", "null:", "--report", "mine.md")),
        ("kvmark-report.html", ("runs", "report", "last")),
        (
            "mine.xml",
            (
                "ab",
                "ycsb/c --system null:",
                "--candidate",
                "--clients 2",
                "--fail-if",
                "p99>5%",
                "--junit",
                "mine.xml",
            ),
        ),
    ],
)
def test_a_report_replaces_no_file_of_the_user(
    user: Kvmark, name: str, words: tuple[object, ...]
) -> None:
    (user.folder / name).write_text("my notes on kvmark")
    assert "kvmark didn't make it" in user.refuses(*words)
    assert (user.folder / name).read_text() == "my notes on kvmark"


def test_too_little_address_space_is_told_before_anything_is_begun(kvmark: Kvmark) -> None:
    limited = f"ulimit -v 1000000; exec {PROGRAM} run ycsb/c --system null: --operations 10"
    done = subprocess.run(
        ["sh", "-c", limited], cwd=kvmark.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "needs 1,500: raise the limit (ulimit -v)" in sentence_of(done.stderr)
    assert not kvmark.runs.exists()
