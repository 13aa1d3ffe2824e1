"""Wrong use: exit code 2, one sentence, no run, and no changed file of the user."""

import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import PROGRAM, Kvmark, fingerprint, sentence_of

WORK = "run ycsb/a --system null: --load never --operations 100 -q"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and its trace, which must stay unchanged."""
    folder = tmp_path_factory.mktemp("earlier")
    Kvmark(folder, folder / "runs")(WORK, "--record", "a.trace", exits=(0, 1))
    return folder


@pytest.fixture
def kvmark(kvmark: Kvmark, earlier: Path) -> Kvmark:
    """The program with an earlier run."""
    shutil.copytree(earlier, kvmark.folder, dirs_exist_ok=True)
    return kvmark


RUN = "run ycsb/a --system null:"

# What each wrong command line is, and a part of its error. spec/refusals.toml has wrong values.
WRONG = {
    "unknown command": ("rnu", "'rnu'"),
    "unknown option": (f"{RUN} --cleints 3", "--cleints"),
    "option without its value": (f"{RUN} --tag", "--tag"),
    "extra argument": (f"{RUN} ycsb/b", "ycsb/b"),
    "missing workload": ("run", "WORKLOAD"),
    "missing system": ("run ycsb/a", "--system"),
    "unknown workload": ("run ycsb/q --system null:", "'ycsb/q'"),
    "unknown workload to print": ("workloads ycsb/q", "'ycsb/q'"),
    "missing file": ("run no.yaml --system null:", "no.yaml"),
    "address alone": ("run ycsb/a --system 127.0.0.1:7620", "write redis://127.0.0.1:7620"),
    "no core": (f"{RUN} --pin a", "'a' is no list of cores, such as 0,1"),
    "unknown option of a system": ("run ycsb/a --system sim:?serverz=2", "'serverz'"),
    "bad value of a system's option": ("run ycsb/a --system sim:?servers=none", "'servers'"),
    "unknown option of RocksDB": ("run ycsb/a --system rocksdb:db?bloom=3", "'bloom'"),
    "fault of a server without a testbed": (f"{RUN} --fault '1s pause n1'", "kvmark up"),
    "missing file of faults": (f"{RUN} --faults no.yaml", "no.yaml"),
    "missing testbed": ("run ycsb/a --system up:no", "'no'"),
    "no testbed at all": ("run ycsb/a --system up:", "kvmark up"),
    "unknown arrival process": (f"{RUN} --rate 5 --arrival bursty", "'bursty'"),
    "negative count": (f"{RUN} --clients -3", "'--clients'"),
    "no clients": (f"{RUN} --clients 0", "clients"),
    "rate of zero": (f"{RUN} --rate 0", "'--rate'"),
    "too short stall limit": (
        f"{RUN} --stall-limit 100ms",
        "a stall limit is at least 1s, not '100ms'; write off for none",
    ),
    "duration without a unit": (f"{RUN} --duration 30", "'--duration'"),
    "seed that is no number": (f"{RUN} --seed x", "'--seed'"),
    "missing core": (f"{RUN} --pin 4095 --operations 9", "4095"),
    "report of an unknown format": (f"{RUN} --report x.pdf", "x.pdf"),
    "report into a missing folder": (f"{RUN} --report no/x.html", "no"),
    "unknown format of an export": ("runs export --format xml", "'xml'"),
    "no runs to list": ("runs --limit 0", "'--limit'"),
    "unknown run": ("show nosuch", "'nosuch'"),
    "unknown step": ("ycsb --workloads load,z", "'z'"),
    "step without its records": ("ycsb --workloads load,delete,a", "reload"),
    "no records": ("ycsb --records 0", "records"),
    "no load": ("ycsb --workloads a,c --system rocksdb:db", "write --workloads load,a,c"),
    "no repetition": ("ycsb --repetitions 0", "repetitions"),
    "load and transactions": ("ycsb -load -t", "-load"),
    "missing property file": ("ycsb -P none", "none"),
}


@pytest.mark.parametrize(("words", "part"), WRONG.values(), ids=WRONG)
def test_a_wrong_command_line_is_refused(kvmark: Kvmark, words: str, part: str) -> None:
    before = fingerprint(kvmark.folder)
    assert part in kvmark.refuses(words)
    assert fingerprint(kvmark.folder) == before


MIXX = "name: mine\ndataset: {records: 10}\ngroups:\n  - name: all\n    mixx: {read: 1}\n"
MISTYPED = "# mine\nrecordcount=100\nreadproportoin=0.5\n"
WRONG_FILES = {
    "key of a workload": (MIXX, "mine.yaml:5:", ("unknown key 'mixx'", "did you mean 'mix'?")),
    "property": (MISTYPED, "workload:3:", ("readproportion",)),
    "value of a property": ("recordcount=many\n", "workload:1:", ("'recordcount'",)),
}


@pytest.mark.parametrize(("text", "place", "parts"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_an_error_in_a_file_names_its_line(
    kvmark: Kvmark, text: str, place: str, parts: tuple[str, ...]
) -> None:
    name = place.partition(":")[0]
    (kvmark.folder / name).write_text(text)
    words = "run mine.yaml --system null:" if name == "mine.yaml" else "ycsb -P workload"
    sentence = kvmark.refuses(words)
    assert sentence.startswith(place)
    assert all(part in sentence for part in parts)


TEXT = "the user's notes on kvmark\n"
STRESS = "stress write n=100 -rate threads=1 -node sim:"
NOT_OURS = "kvmark didn't make it"
# A command, its file, and a part of the error if that exists.
WRITING = {
    "histograms of stress": (f"{STRESS} -log hdrfile=mine.hdr", "mine.hdr", ""),
    "graph of stress": (f"{STRESS} -graph file=mine.html", "mine.html", ""),
    "workload of a trace": ("trace learn a.trace -o mine.yaml", "mine.yaml", ""),
    "rates of a trace": ("trace show a.trace --rates mine.csv", "mine.csv", ""),
    "trace of a run": (f"{WORK} --record mine.trace", "mine.trace", ""),
    "page of a run": (f"{WORK} --report mine.html", "mine.html", ""),
    "text of a run": (f"{WORK} --report mine.md", "mine.md", NOT_OURS),
    "text": ("runs report last -o mine.md", "mine.md", ""),
    "page": ("runs report last", "kvmark-report.html", NOT_OURS),
    "export": ("runs export last --format csv -o mine.csv", "mine.csv", ""),
    "archive": ("runs archive last -o mine.tar.xz", "mine.tar.xz", ""),
    "verdicts of a comparison": ("compare last last --junit mine.xml", "mine.xml", ""),
    "verdicts of two sides": (
        "ab 'ycsb/c --system null:' --candidate '--clients 2' --fail-if 'p99>5%' --junit mine.xml",
        "mine.xml",
        NOT_OURS,
    ),
    "page of a sequence": (
        "ycsb --system rocksdb: --records 100 --workloads load",
        "kvmark-ycsb.html",
        NOT_OURS,
    ),
    "page of a study": ("study smoke --system null:", "kvmark-study.html", NOT_OURS),
}


@pytest.mark.parametrize(("words", "name", "part"), WRITING.values(), ids=WRITING)
def test_a_command_replaces_no_file(kvmark: Kvmark, words: str, name: str, part: str) -> None:
    (kvmark.folder / name).write_text(TEXT)
    sentence = kvmark.refuses(words)
    assert name in sentence
    assert part in sentence
    assert (kvmark.folder / name).read_text() == TEXT


def test_a_log_is_appended_to_an_existing_file(kvmark: Kvmark) -> None:
    log = kvmark.folder / "mine.log"
    log.write_text(TEXT)
    kvmark(f"{STRESS} -log file=mine.log", exits=(0, 1))
    assert log.read_text().startswith(TEXT)
    assert "Results:" in log.read_text()


def test_more_clients_than_threads_are_refused_without_a_change(kvmark: Kvmark) -> None:
    words = "run ycsb/load --system rocksdb:db --records 50 -q"
    sentence = kvmark.refuses(words, "--clients", "5000")
    assert "5000 clients" in sentence
    assert "1024" in sentence
    database = kvmark.folder / "db"
    assert not database.exists()
    kvmark(words)
    before = {path.name for path in database.glob("*.sst")}
    kvmark.refuses(words, "--clients", "5000")
    assert (database / "CURRENT").exists()
    assert {path.name for path in database.glob("*.sst")} >= before


COMMANDS = ("ycsb", "run", "runs", "show", "runs export")
HELP = {f"{command} --help": f"Usage: kvmark {command}" for command in COMMANDS}


@pytest.mark.parametrize(("words", "part"), [("", "ycsb"), ("--help", "ycsb"), *HELP.items()])
def test_every_command_has_help(kvmark: Kvmark, words: str, part: str) -> None:
    result = kvmark(words)
    assert part in result.out
    assert result.err == ""


def test_the_version_is_printed(kvmark: Kvmark) -> None:
    assert kvmark("--version").out.startswith("kvmark 0.")


def test_a_name_with_escape_codes_is_printed_without_them(kvmark: Kvmark) -> None:
    err = kvmark("runs", "--runs", "\x1b[2Jred", exits=2).err
    assert "\x1b" not in err
    assert "[2Jred" in err


def test_too_little_address_space_is_reported_before_the_run(kvmark: Kvmark) -> None:
    before = fingerprint(kvmark.runs)
    limited = f"ulimit -v 1000000; exec {PROGRAM} run ycsb/c --system null: --operations 10"
    done = subprocess.run(
        ["sh", "-c", limited], cwd=kvmark.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "needs 1,500: raise the limit (ulimit -v)" in sentence_of(done.stderr)
    assert fingerprint(kvmark.runs) == before
