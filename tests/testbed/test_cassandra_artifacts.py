"""Fetching Cassandra and finding Java, with programs that replace Maven and Java."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed.cassandra.artifacts import exact_version, fetch, find_java

MAVEN = """\
#!/bin/sh
echo run >> {runs}
for word in "$@"; do case "$word" in -DoutputDirectory=*) lib=${{word#*=}} ;; esac; done
mkdir -p "$lib"
for jar in cassandra-all-5.0.9.jar jamm-0.4.0.jar jmx_prometheus_javaagent-1.0.1.jar; do
    echo "$jar" > "$lib/$jar"
    echo "[INFO] Downloaded from central: http://registry/some/$jar (5 kB at 9 kB/s)"
done
{more}
"""


@dataclass(frozen=True)
class Programs:
    """A folder that alone is on the search path of programs, beside those of the system."""

    folder: Path

    def add(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def maven(self, more: str = "") -> None:
        self.add("mvn", MAVEN.format(runs=self.folder / "runs", more=more))

    @property
    def times(self) -> int:
        return len((self.folder / "runs").read_text().splitlines())


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    folder = tmp_path / "programs"
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("kvmark.testbed.cassandra.artifacts._INSTALLED", folder / "none")
    return Programs(folder)


def test_only_an_incomplete_version_is_fetched(programs: Programs, tmp_path: Path) -> None:
    programs.maven()
    progress: list[str] = []
    found = fetch("5.0.9", progress.append)
    assert found.folder == tmp_path / "kvmark" / "cassandra-5.0.9"
    assert [path.name for path in found.jars] == ["cassandra-all-5.0.9.jar", "jamm-0.4.0.jar"]
    assert found.exporter.exists()
    assert progress[0] == "Fetching Cassandra 5.0.9 with Maven"
    assert progress[-1].endswith("with Maven: 3 files, jmx_prometheus_javaagent-1.0.1.jar")
    (programs.folder / "mvn").unlink()
    assert fetch("5.0.9", progress.append) == found
    assert found.is_complete
    assert programs.times == 1
    programs.maven()
    found.jars[0].unlink()
    assert fetch("5.0.9", print).is_complete
    found.jars[0].write_text("cut")
    assert fetch("5.0.9", print).is_complete
    assert programs.times == 3


def test_a_fetch_that_was_cut_off_is_never_used(programs: Programs, tmp_path: Path) -> None:
    programs.maven("kill -9 $$")
    with pytest.raises(SystemUnderTestError, match=r"Maven could not fetch Cassandra 5\.0\.9"):
        fetch("5.0.9", print)
    assert [path.name for path in (tmp_path / "kvmark").iterdir()] == ["cassandra-5.0.9.lock"]
    half = tmp_path / "kvmark" / "cassandra-5.0.9.part"
    half.mkdir()
    programs.maven()
    assert fetch("5.0.9", print).is_complete
    assert not half.exists()


def test_two_at_once_fetch_once(programs: Programs) -> None:
    programs.maven()
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(fetch, ["5.0.9"] * 2, [print] * 2)
    assert [one.is_complete for one in found] == [True, True]
    assert programs.times == 1


@pytest.mark.parametrize(
    ("line", "error", "sentence"),
    [
        ("find artifact org.apache.cassandra:cassandra-all:jar:5.0.9 in x", UsageError,
         "version: Maven's registry has no Cassandra 5.0.9; give 5.0 or 6.0"),
        ("transfer artifact x: Connection refused -> [Help 1]", SystemUnderTestError,
         "look at the network and at Maven's settings.xml: Could not transfer artifact x: "
         "Connection refused"),
    ],
)  # fmt: skip
def test_an_error_of_maven_is_one_sentence(
    programs: Programs, line: str, error: type[Exception], sentence: str
) -> None:
    programs.maven(f"echo '[ERROR] Could not {line}'; echo '[ERROR] Re-run Maven'; exit 1")
    with pytest.raises(error, match=f"{re.escape(sentence)}$"):
        fetch("5.0.9", print)


def test_a_missing_program_is_named(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs.folder))
    with pytest.raises(UsageError, match=r"Maven, .* is missing: .*apt-get install maven"):
        fetch("5.0.9", print)
    with pytest.raises(UsageError, match=r"Java is missing: .* openjdk-17-jre-headless"):
        find_java()


def test_versions_stand_for_exact_ones() -> None:
    exact = map(exact_version, ("5.0", "6.0", "5.0.8"))
    assert [*exact] == ["5.0.9", "6.0-alpha2", "5.0.8"]


def java(version: str) -> str:
    return f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n"


def test_the_right_java_is_found(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_path = programs.add("java", java("17.0.2"))
    assert find_java().program == str(on_the_path)
    programs.add("home/bin/java", java("17.0.9"))
    monkeypatch.setenv("JAVA_HOME", str(programs.folder / "home"))
    assert find_java().version == "17.0.9"
    programs.add("home/bin/java", java("21.0.1"))
    assert find_java().version == "17.0.2"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "21.0.1"])
def test_another_java_is_refused(programs: Programs, version: str) -> None:
    programs.add("java", java(version))
    sentence = rf"^Cassandra needs Java 17 and not {version} \(.* openjdk-17-jre-headless"
    with pytest.raises(UsageError, match=sentence):
        find_java()
