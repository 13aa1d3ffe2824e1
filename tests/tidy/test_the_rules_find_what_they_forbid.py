"""Each rule finds a planted violation, where it is, and leaves its neighbours alone."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import callers
import circles
import class_names
import layers
import project_rules
import python_rules
import rust_callers
import rust_rules
import text_rules
from findings import Finding, Source


def rust(text: str, path: str = "crates/engine/src/lib.rs") -> Source:
    return Source(path, text)


def python(text: str, path: str = "python/kvmark/stats/mean.py") -> Source:
    return Source(path, text)


def lines(findings: Iterable[Finding]) -> list[int]:
    return [finding.line for finding in findings]


def test_a_line_of_101_columns_is_long_and_one_of_100_is_not() -> None:
    assert lines(text_rules.long_lines(rust("a" * 100 + "\n" + "a" * 101))) == [2]


def test_a_note_to_oneself_is_left_over() -> None:
    assert lines(text_rules.leftovers(rust("fn a() {}\n// TODO: b\n"))) == [2]


def test_a_home_folder_and_a_registry_are_one_machine() -> None:
    text = "ok: https://example.org/work\npath: /root/x\nhost: pypi.org\n./work/x"
    assert lines(text_rules.one_machine(rust(text))) == [2, 3]


def test_a_word_that_was_set_aside_is_found_unless_allowed() -> None:
    source = Source("docs/a.md", "rate\nqps\n")
    allowed = text_rules.exceptions("docs/* qps  # another tool's\n# a comment\n")
    assert lines(text_rules.other_words(source, [])) == [2]
    assert lines(text_rules.other_words(source, allowed)) == []


def test_an_exception_that_nothing_needs_is_found() -> None:
    allowed = text_rules.exceptions("docs/* qps  # another tool's")
    unneeded = text_rules.unused_exceptions([Source("docs/a.md", "rate")], allowed)
    assert len(list(unneeded)) == 1


def test_a_rust_function_of_71_lines_is_long_and_one_of_70_is_not() -> None:
    def function(name: str, length: int) -> str:
        return f"    pub(crate) const fn {name}() {{\n" + "        x;\n" * (length - 2) + "    }\n"

    text = "impl A {\n" + function("short", 70) + function("long", 71) + "}\n"
    assert lines(rust_rules.long_functions(rust(text))) == [72]


def test_a_rust_function_without_a_body_has_one_line() -> None:
    text = "trait A {\n    fn a();\n    fn b(\n        x: u8,\n    ) -> u8;\n" + "\n" * 80 + "}\n"
    assert lines(rust_rules.long_functions(rust(text))) == []


def test_an_unwrap_is_found_in_the_product_and_not_in_its_tests_or_comments() -> None:
    product = "fn a() {\n    b.unwrap(); // why\n}\n"
    tests = "#[cfg(test)]\nmod tests {\n    fn a() {\n        b.unwrap();\n    }\n}\n"
    after = "/// c.unwrap()\nfn c() {\n    d.unwrap();\n}\n"
    assert lines(rust_rules.unwraps(rust(product + tests + after))) == [2, 12]
    assert lines(rust_rules.unwraps(rust(product, "crates/engine/tests/a.rs"))) == []


def test_an_expect_without_a_text_is_found() -> None:
    text = (
        'a.expect("");\nb.expect(reason);\nc.expect("a phase ends");\nd.expect(\n    "it is so",\n)'
    )
    assert lines(rust_rules.silent_expects(rust(text))) == [1, 2]


def test_a_clock_in_a_driver_is_found_and_a_duration_is_not() -> None:
    text = "use std::time::Duration;\nlet t = Instant::now();\n/// Instant::now is not called.\n"
    assert lines(rust_rules.clock_calls(rust(text, "crates/driver/src/sim.rs"))) == [2]


def test_a_system_named_by_the_engine_is_found_and_the_stop_rule_is_not() -> None:
    assert lines(rust_rules.named_systems(rust("StderrRule::CassandraStress\nRocksDb\n"))) == [2]


def test_a_default_in_a_plan_is_found() -> None:
    text = "#[derive(Clone, Default)]\n#[serde(deny_unknown_fields)]\n#[serde(default)]\n"
    assert lines(rust_rules.defaults(rust(text))) == [1, 3]


def test_a_file_included_from_outside_the_crate_is_found() -> None:
    text = 'include_str!("../plan.json")\ninclude_str!("../../../plan.json")\n'
    assert lines(rust_rules.outside_includes(rust(text))) == [2]


def manifest(name: str, *dependencies: str) -> Source:
    used = "".join(f"{dependency}.workspace = true\n" for dependency in dependencies)
    text = f'[package]\nname = "kvmark-{name}"\n[dependencies]\n{used}'
    return Source(f"crates/{name}/Cargo.toml", text)


def test_a_crate_that_uses_what_is_above_it_is_found() -> None:
    assert lines(layers.crate_arrows(manifest("record", "kvmark-plan", "kvmark-engine"))) == [5]
    assert lines(layers.crate_arrows(manifest("engine", "kvmark-driver-rocksdb"))) == [4]
    assert lines(layers.crate_arrows(manifest("driver-redis", "kvmark-engine"))) == [4]


def test_a_crate_may_use_what_is_below_it_at_any_distance() -> None:
    used = ("serde", "kvmark-engine", "kvmark-plan", "kvmark-driver-rocksdb")
    assert lines(layers.crate_arrows(manifest("pyext", *used))) == []


def test_a_crate_without_a_place_is_found() -> None:
    assert lines(layers.crate_arrows(manifest("helpers"))) == [1]


def test_a_python_package_that_uses_what_is_above_it_is_found() -> None:
    text = "from kvmark.errors import A\nfrom kvmark import cli\nfrom ..run.local import b\n"
    assert lines(layers.package_arrows(python(text))) == [2, 3]


def test_a_python_package_may_use_what_is_below_it_at_any_distance() -> None:
    text = "import kvmark.spec.url\nfrom kvmark.records import store\nfrom . import local\n"
    assert (
        lines(
            layers.package_arrows(python(text, "python/kvmark/experiment/designs/matrix/cases.py"))
        )
        == []
    )


def crate(folder: Path, files: Mapping[str, str]) -> list[str]:
    """What is found in a crate of these files."""
    for name, text in files.items():
        place = folder / "crates" / "planted" / "src" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    paths = sorted(folder.rglob("*.rs"))
    read = [Source(path.relative_to(folder).as_posix(), path.read_text()) for path in paths]
    return [finding.problem for finding in circles.circles(read)]


def test_files_of_a_crate_that_use_each_other_are_found_with_the_lines(tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\nmod c;\nmod d;\n",
        "a.rs": "use crate::d::D;\n\nuse crate::{\n    b::{B, Other},\n};\n",
        "b.rs": "pub struct B(crate::c::C);\n",
        "c.rs": "pub struct C;\n\nfn c() {\n    use super::{a::A, d};\n}\n",
        "d.rs": "pub struct D;\n",
    }
    lines = "src/a.rs:3, crates/planted/src/b.rs:1, crates/planted/src/c.rs:4"
    found = f"a circle: a → b → c → a (crates/planted/{lines})"
    assert crate(tmp_path, files) == [found]


def test_a_circle_through_names_that_parents_hand_out_is_found(tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\npub use a::A;\npub use b::*;\n",
        "a.rs": "use crate::B as Other;\npub struct A(Other);\n",
        "b/mod.rs": "mod inner;\npub(crate) use inner::B;\n",
        "b/inner.rs": "pub struct B;\nimpl B {\n    fn of(a: super::super::A) {}\n}\n",
    }
    lines = "crates/planted/src/a.rs:1, crates/planted/src/b/inner.rs:3"
    assert crate(tmp_path, files) == [f"a circle: a → b::inner → a ({lines})"]


def test_a_parent_whose_own_item_is_used_by_a_child_that_it_uses_is_found(tmp_path: Path) -> None:
    used = {
        "lib.rs": "mod a;\npub struct Own(a::A);\n",
        "a.rs": "pub struct A;\nfn of(own: crate::Own) {}\n",
    }
    lines = "crates/planted/src/lib.rs:2, crates/planted/src/a.rs:2"
    assert crate(tmp_path, used) == [f"a circle: lib → a → lib ({lines})"]
    handed_out = {"lib.rs": "mod a;\npub use a::A;\npub struct Own;\n"}
    assert crate(tmp_path, handed_out) == []


def test_files_that_use_each_other_one_way_or_in_tests_are_no_circle(tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\npub use a::A;\npub use b::B;\n",
        "a.rs": "use crate::B;\nmod source {\n    use super::*;\n    use super::A;\n}\n",
        "b.rs": '//! crate::a\nconst A: &str = "crate::a::A"; // crate::a\n'
        "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
        "b/tests.rs": "use crate::a::A;\n",
    }
    assert crate(tmp_path, files) == []


def test_ray_outside_the_fleet_is_found() -> None:
    assert lines(python_rules.ray_outside_the_fleet(python("import ray.util\n"))) == [1]
    fleet = python("import ray\n", python_rules.FLEET)
    assert lines(python_rules.ray_outside_the_fleet(fleet)) == []


def test_an_engine_that_runs_elsewhere_than_in_the_worker_is_found() -> None:
    text = "from kvmark import _engine\n_engine.run(plan)\n_engine.drivers()\n"
    assert lines(python_rules.engine_outside_the_worker(python(text))) == [2]
    worker = python(text, python_rules.WORKER)
    assert lines(python_rules.engine_outside_the_worker(worker)) == []


def test_a_file_removed_elsewhere_than_where_it_is_proven_is_found() -> None:
    text = (
        "import os\nimport shutil\nshutil.rmtree(a)\nPath(a).unlink()\nos.remove(a)\nb.rmdir()\n"
        "rows.remove(a)\nlinks.link()\n"
    )
    assert lines(python_rules.files_removed(python(text))) == [3, 4, 5, 6]
    assert lines(python_rules.files_removed(python(text, python_rules.REMOVAL))) == []


def test_an_answer_written_past_the_module_that_looks_first_is_found() -> None:
    text = 'a.write_text(b)\na.open("w")\na.open("rb")\nc.write_csv()\nc.write_csv(a)\n'
    report, records = (python(text, f"python/kvmark/{part}/x.py") for part in ("report", "records"))
    assert lines(python_rules.outputs_written(report)) == [1, 2, 5]
    assert lines(python_rules.outputs_written(records)) == []


def test_records_removed_by_another_than_a_stores_module_are_found() -> None:
    text = (
        'a("FLUSHDB")\na("flush_all")\na(f"DROP TABLE {b}")\na("TRUNCATE b")\n'
        'a("Empty it instead of DROP.")\na("DROPPED")\n'
    )
    assert lines(python_rules.records_removed(python(text))) == [1, 2, 3, 4]
    store = python(text, "python/kvmark/testbed/redis/data.py")
    assert lines(python_rules.records_removed(store)) == []


def test_a_file_read_by_stats_is_found() -> None:
    text = "from pathlib import Path\nimport math\nopen(a)\nmath.sqrt(2)\n"
    assert lines(python_rules.file_access(python(text))) == [1, 3]


def test_a_number_computed_by_report_is_found() -> None:
    text = "import numpy as np\nfrom kvmark.stats import mean\nfrom kvmark.analysis import a\n"
    assert lines(python_rules.numeric_imports(python(text))) == [1, 2]


def test_an_interval_made_elsewhere_is_found() -> None:
    text = (
        "a = Estimate(1, 0, 2, 5, 's', '')\nb = Estimate.alone(1, 's', '')\nc = a.put(abs, 's')\n"
    )
    assert lines(python_rules.estimates_made(python(text))) == [1]


def test_a_long_python_function_is_found() -> None:
    text = "def a():\n" + "    b\n" * 69 + "def c():\n" + "    d\n" * 70
    assert lines(python_rules.long_functions(python(text))) == [71]


def test_a_document_without_or_with_two_titles_is_found() -> None:
    good = "# A\n\n## B\n\n```sh\n# a comment\n```\n"
    assert lines(project_rules.titles(Source("a.md", good))) == []
    assert lines(project_rules.titles(Source("a.md", "## A\n"))) == [1]
    assert lines(project_rules.titles(Source("a.md", "# A\n# B\n"))) == [1]


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `--word`, and [more](x.md)\n")
    good = "# Part\n[a](there.md#a---word-and-more) [b](https://example.org) [c](#part)\n"
    text = f"{good}![d](gone.svg)\n[e](there.md#part)\n[f](#parts)\n"
    assert lines(project_rules.dead_links(Source("a.md", text), tmp_path)) == [3, 4, 5]


def test_a_link_out_of_the_site_is_found() -> None:
    text = "[a](../b.svg) [b](https://example.org) [c](#part)\n[d](../../e.md)\n"
    assert lines(project_rules.links_out(Source("docs/guide/a.md", text), "docs/")) == [2]


def test_versions_that_differ_are_found() -> None:
    cargo = Source("Cargo.toml", '[workspace.package]\nversion = "0.2.0"\n')
    project = Source("pyproject.toml", '[project]\nversion = "0.2.0"\n')
    newest = Source("CHANGELOG.md", "# Changes\n## 0.2.0\n## 0.1.0\n")
    old = Source("CHANGELOG.md", "# Changes\n## 0.1.0\n")
    dynamic = Source("pyproject.toml", '[project]\ndynamic = ["version"]\n')
    assert lines(project_rules.versions(newest, cargo, project)) == []
    assert lines(project_rules.versions(newest, cargo, dynamic)) == []
    assert lines(project_rules.versions(old, cargo, project)) == [1]


def test_a_makefile_target_without_help_or_with_a_program_in_it_is_found() -> None:
    text = ".PHONY: a b\na: ## A\n\tx\nb:\n\tx && y\nc: a ## C\n"
    assert lines(project_rules.recipes(Source("Makefile", text))) == [4, 5, 6]


def test_a_name_without_a_caller_is_found_and_what_only_that_calls() -> None:
    folder = "python/kvmark/"
    files = [
        python(
            '__all__ = ["a", "b", "c", "d"]\nfrom .mean import a, c\n', f"{folder}stats/__init__.py"
        ),
        python("def a(): ...\ndef b(): c()\ndef c(): ...\ndef d(): ...\n"),
        python("from .. import stats\ndef show(): return stats.a()\n", f"{folder}cli/show.py"),
        python('COMMANDS = {"show": 1}\n', f"{folder}cli/registry.py"),
    ]
    d = "kvmark.stats.mean.d"
    assert lines(callers.uncalled(files, [])) == [2, 3, 4]
    assert lines(callers.uncalled(files, [d])) == [2, 3]
    assert lines(callers.uncalled(files, [d, "kvmark.stats.mean.a"])) == [2, 3, 1]


def test_a_public_item_of_a_crate_that_only_tests_know_is_found() -> None:
    offered = """\
pub struct Used(u32);

impl Used {
    /// Called by Python.
    pub fn new() -> Self {
        Self(LIMIT)
    }

    pub fn only_tested(&self) -> u32 {
        self.0
    }
}

impl Clone for Used {
    fn clone(&self) -> Self {
        from_a_trait(self.0)
    }
}

pub const LIMIT: u32 = 5;

pub fn from_a_trait(n: u32) -> Used {
    Used(n)
}

/// Names itself, and `renamed` in a comment.
pub struct Pause;

impl Pause {
    pub fn end(self) -> Pause {
        only_by_pause();
        self
    }
}

pub fn only_by_pause() {}

pub fn renamed() {}

#[cfg(test)]
mod tests {
    #[test]
    fn a_pause_ends() {
        Pause.end();
    }
}
"""
    files = [
        rust(offered),
        rust("pub use a::Pause;\nuse a::renamed as other;\n\nfn private() {}\n"),
        rust("fn run() {\n    Used::new();\n    other();\n}\n", "crates/pyext/src/lib.rs"),
        rust("fn t() {\n    Used.only_tested();\n    helps();\n}\n", "crates/engine/tests/t.rs"),
        rust("pub fn helps() {}\n\npub fn helps_nobody() {}\n", "crates/testing/src/lib.rs"),
    ]
    assert lines(rust_callers.uncalled(files)) == [9, 27, 30, 36, 3]


def test_a_class_name_that_another_has_is_found_unless_allowed() -> None:
    files = [python("class A: ...\nclass _B: ...\n"), python("class _B: ...\nclass A: ...\n")]
    assert lines(class_names.repeated(files, {})) == [2]
    assert lines(class_names.repeated(files, {"A": "a reason"})) == []
    assert lines(class_names.repeated(files[:1], {"A": "a reason"})) == [1]
