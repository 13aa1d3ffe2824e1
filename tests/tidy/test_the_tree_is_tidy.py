"""The repository keeps its own style."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby

import callers
import circles
import class_names
import drivers
import layers
import project_rules
import pytest
import python_rules
import rust_callers
import rust_rules
import text_rules
from findings import ROOT, Finding, Source, report, sources

CODE = (".rs", ".py", ".pyi", ".toml", ".sh", ".html", ".css", ".js", "Makefile", ".ci/run")
TEXT = (*CODE, ".md", ".yaml", ".yml", ".json", ".lock", ".txt")
# These spell out what they forbid.
THIS_FOLDER = "tests/tidy/"

# Connecting, and the crate behind the CQL driver, need a runtime's timers. None is a stamp.
OWN_TIMERS = "crates/driver-server/src/timers.rs"


def elsewhere(*suffixes: str) -> list[Source]:
    return [file for file in sources(*suffixes) if not file.path.startswith(THIS_FOLDER)]


def allowed() -> list[text_rules.Allowed]:
    return text_rules.exceptions((ROOT / THIS_FOLDER / "words_allowed.txt").read_text())


def holds(findings: Iterable[Finding]) -> None:
    found = list(findings)
    if found:
        pytest.fail(report(found), pytrace=False)


def each(rule: Callable[[Source], Iterator[Finding]], files: list[Source]) -> Iterator[Finding]:
    return chain.from_iterable(map(rule, files))


def one(path: str) -> Source:
    return Source(path, (ROOT / path).read_text())


def test_lines_of_code_have_at_most_100_columns() -> None:
    holds(each(text_rules.long_lines, sources(".rs", ".py", ".pyi", "Makefile")))


def test_nothing_is_left_over() -> None:
    holds(each(text_rules.leftovers, elsewhere(*CODE, ".md")))


def test_nothing_names_a_place_of_one_machine() -> None:
    holds(each(text_rules.one_machine, elsewhere(*TEXT)))


def test_words_are_those_of_the_vocabulary() -> None:
    found = elsewhere(".rs", ".py", ".pyi", ".md")
    entries = allowed()
    holds(chain.from_iterable(text_rules.other_words(source, entries) for source in found))


def test_every_exception_to_the_vocabulary_is_needed() -> None:
    found = elsewhere(".rs", ".py", ".pyi", ".md")
    holds(text_rules.unused_exceptions(found, allowed()))


def test_rust_functions_have_at_most_70_lines() -> None:
    holds(each(rust_rules.long_functions, sources(".rs")))


def test_python_functions_have_at_most_70_lines() -> None:
    holds(each(python_rules.long_functions, sources(".py")))


def test_rust_panics_state_the_invariant() -> None:
    for rule in (rust_rules.unwraps, rust_rules.silent_expects):
        holds(each(rule, sources(".rs")))


def test_drivers_read_no_clock() -> None:
    files = sources(".rs", under="crates/driver")
    holds(each(rust_rules.clock_calls, [file for file in files if file.path != OWN_TIMERS]))


def test_the_engine_names_no_system() -> None:
    holds(each(rust_rules.named_systems, sources(".rs", under="crates/engine/")))


def test_a_driver_s_crate_is_named_where_it_is_registered_alone() -> None:
    files = sources(".rs", ".toml", under="crates/")
    (registry,) = (file for file in files if file.path == drivers.REGISTERED[-1])
    assert drivers.crates(registry)
    for crate in drivers.crates(registry):
        holds(chain.from_iterable(drivers.named_crate(file, crate) for file in files))


def test_python_names_a_system_only_in_what_is_about_it() -> None:
    crates = sources(".rs", under="crates/")
    (registry,) = (file for file in crates if file.path == drivers.REGISTERED[-1])
    names = [drivers.names(crates, crate) for crate in drivers.crates(registry)]
    assert all(names)
    testbeds = {path.parent.name for path in ROOT.glob("python/kvmark/testbed/*/__init__.py")}
    known = set().union(testbeds - {"proxy"}, *names)
    files = sources(".py", under="python/")
    holds(chain.from_iterable(drivers.named_system(file, known) for file in files))


def test_a_plan_holds_no_default() -> None:
    holds(each(rust_rules.defaults, sources(".rs", under="crates/plan/")))


def test_crates_include_nothing_from_outside() -> None:
    holds(each(rust_rules.outside_includes, sources(".rs", under="crates/")))


def test_crates_depend_one_way() -> None:
    manifests = sources("/Cargo.toml", under="crates/")
    assert manifests
    holds(each(layers.crate_arrows, manifests))


def test_files_of_a_crate_use_each_other_one_way() -> None:
    files = [file for file in sources(".rs", under="crates/") if file.path.split("/")[2] == "src"]
    assert files
    by_crate = groupby(files, key=lambda file: file.path.split("/")[1])
    holds(chain.from_iterable(circles.circles(list(group)) for _, group in by_crate))


def test_python_packages_depend_one_way() -> None:
    modules = sources(".py", under="python/kvmark/")
    assert modules
    holds(each(layers.package_arrows, modules))


def test_ray_is_imported_in_one_file() -> None:
    holds(each(python_rules.ray_outside_the_fleet, sources(".py")))


def test_plans_are_carried_out_in_one_file() -> None:
    holds(each(python_rules.engine_outside_the_worker, sources(".py", under="python/kvmark/")))


def test_files_are_removed_in_one_place() -> None:
    holds(each(python_rules.files_removed, sources(".py", under="python/kvmark/")))


def test_answers_are_written_in_one_place() -> None:
    holds(each(python_rules.outputs_written, sources(".py", under="python/kvmark/")))


def test_records_are_removed_by_the_stores_modules_alone() -> None:
    holds(each(python_rules.records_removed, sources(".py", under="python/kvmark/")))


def test_stats_reads_no_file() -> None:
    modules = sources(".py", under="python/kvmark/stats/")
    holds(each(python_rules.file_access, modules))


def test_report_computes_no_number() -> None:
    modules = sources(".py", under="python/kvmark/report/")
    holds(each(python_rules.numeric_imports, modules))


def test_intervals_are_made_in_one_place() -> None:
    elsewhere = [
        file
        for file in sources(".py", under="python/kvmark/")
        if not file.path.startswith("python/kvmark/stats/")
    ]
    assert elsewhere
    holds(each(python_rules.estimates_made, elsewhere))


def test_what_the_product_defines_has_a_caller() -> None:
    files = [*sources(".py", under="python/kvmark/"), *sources(".py", under="scripts/")]
    holds(callers.uncalled([*files, *sources(".py", under="bench/")], callers.ALLOWED))


def test_what_a_crate_offers_has_a_caller() -> None:
    holds(rust_callers.uncalled(sources(".rs", under="crates/")))


def test_a_class_name_has_one_meaning() -> None:
    holds(class_names.repeated(sources(".py", under="python/kvmark/"), class_names.ALLOWED))


def test_documents_have_one_title() -> None:
    holds(each(project_rules.titles, sources(".md")))


def test_links_lead_somewhere() -> None:
    documents = sources(".md")
    holds(chain.from_iterable(project_rules.dead_links(source, ROOT) for source in documents))


def test_pages_of_the_site_link_to_pages_of_the_site() -> None:
    pages = sources(".md", under="docs/")
    assert pages
    holds(chain.from_iterable(project_rules.links_out(page, "docs/") for page in pages))


def test_there_is_one_version() -> None:
    files = map(one, ("CHANGELOG.md", "Cargo.toml", "pyproject.toml"))
    holds(project_rules.versions(*files))


def test_the_makefile_explains_itself() -> None:
    holds(project_rules.recipes(one("Makefile")))
