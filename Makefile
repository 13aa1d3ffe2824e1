# One front door, the same by hand and in .ci/run. A recipe is one line; longer work is a program.

PYTHON ?= python3
BIN := .venv/bin
CARGO := $(PYTHON) scripts/cargo.py
# One profile for the product, its tests and its lints: RocksDB is compiled once.
RELEASE := --release --locked

.DEFAULT_GOAL := help
.PHONY: help quickstart setup check format test test-all test-long fuzz fuzz-short wheel fresh
.PHONY: fresh-setup fresh-wheel licences docs measure bench bench-engine bench-rocksdb
.PHONY: bench-rocksdb-build bench-redis bench-memcached bench-cql bench-apps bench-scale
.PHONY: bench-stress bench-report bench-startup bench-tap bench-trace bench-replay coverage
.PHONY: site lock clean

help: ## List the commands
	@sed -nE 's/^([a-z][a-z-]*):[^#]*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

quickstart: setup ## Install what is missing, build, and run YCSB on five embedded engines
	@$(BIN)/kvmark ycsb

setup: ## Install what is missing, build the engine, and install kvmark into .venv
	@$(PYTHON) scripts/setup.py

# Documents with blocks that are filled from docs/records.
PAGES := README.md docs/benchmarks.md docs/method/cost.md docs/method/peers.md docs/results/*.md
check: setup ## Format, lints, types, generated references, blocks of documents, style
	cargo fmt --all --check
	$(CARGO) clippy $(RELEASE) --workspace --all-targets -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/vulture
	$(BIN)/mypy
	$(BIN)/mypy scripts tests/tidy tests/setup tests/programs.py
	$(BIN)/mypy --explicit-package-bases bench
	$(BIN)/python scripts/references.py --check
	$(BIN)/python scripts/website.py
	$(BIN)/kvmark doc --check $(PAGES)
	$(BIN)/pytest -q tests/tidy

format: setup ## Format Rust and Python
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

TESTS = $(PYTHON) scripts/mounted_root.py $(BIN)/python scripts/all_tests.py
test: setup ## Everyday tests, Rust then Python: without Java, clusters and browsers
	@$(PYTHON) scripts/needs.py
	@$(TESTS) --everyday

test-all: setup ## All tests, on real servers; the end lists the skipped ones and the ten slowest
	@$(PYTHON) scripts/needs.py
	@$(TESTS)

test-long: setup ## Property tests with new cases, from a seed that is printed; SEED=N repeats
	@$(BIN)/python scripts/long_tests.py $(if $(SEED),--seed $(SEED))

fuzz: setup ## Look for bytes that decoders can't take, 10 min each; TARGET=cql SECONDS=3600
	@$(PYTHON) scripts/fuzz.py $(addprefix --target ,$(TARGET)) $(addprefix --seconds ,$(SECONDS))

fuzz-short: setup ## The same inputs each time, half a minute each, as .ci/run does it
	@$(PYTHON) scripts/fuzz.py --seconds 30 --seed 1

wheel: setup ## Build a wheel for any Linux with glibc 2.27, and an sdist, into dist/
	@$(BIN)/python scripts/wheel.py

ABOUT := scripts/licences/about
LIC := dist/LICENCES.md
licences: ## Write the licences of the libraries in a wheel to dist/
	@mkdir -p dist && cargo install --quiet --locked --features cli --root .cache cargo-about@0.9.3
	.cache/bin/cargo-about generate -c $(ABOUT).toml -m crates/pyext/Cargo.toml $(ABOUT).hbs >$(LIC)

FRESH := $(PYTHON) scripts/fresh.py
ONCE := --system rocksdb: --records 1000 --workloads load,a --repetitions 1
SMALL := make setup && .venv/bin/kvmark ycsb $(ONCE)
fresh: ## The README's first command on a Debian 12 that has never seen kvmark (as root)
	@$(FRESH) make quickstart

fresh-setup: ## Only setup and a small sequence there, with a copy of what Cargo compiled here
	@$(FRESH) --lend-target sh -c '$(SMALL)' || [ $$? -eq 77 ]

fresh-wheel: wheel ## The Dockerfile's steps there, and a try of what they installed
	@$(FRESH) --image sh -c "$$(cat scripts/try_wheel.sh)" || [ $$? -eq 77 ]

BENCHES := bench-engine bench-rocksdb bench-redis bench-memcached bench-cql bench-apps bench-scale \
	bench-stress bench-report bench-startup bench-tap bench-trace bench-replay
bench: $(BENCHES) ## All benchmarks; each prints a table

bench-engine: setup ## What the engine itself costs, beside its bounds
	@$(BIN)/python -m bench.engine

bench-rocksdb: setup ## kvmark, a bare loop and YCSB on the same RocksDB database
	$(BIN)/python -m bench.rocksdb.compare

bench-rocksdb-build: setup ## RocksDB's release beside the one that is compiled here
	$(BIN)/python -m bench.rocksdb.compare --threads 1 --peers bare bare-unity

bench-redis: setup ## kvmark, redis-benchmark, resp-benchmark, YCSB and go-ycsb on one Redis
	@$(BIN)/python -m bench.redis

bench-memcached: setup ## kvmark and a bare epoll loop on one memcached
	@$(BIN)/python -m bench.memcached

bench-cql: setup ## kvmark, latte and YCSB on one Cassandra node
	@$(BIN)/python -m bench.cql --only read

bench-apps: setup ## The YugabyteDB sample applications' cost, and memory over a run
	@$(BIN)/python -m bench.apps

bench-scale: setup ## Memory and processor time of 10,000 clients in one process
	@$(BIN)/python -m bench.scale

bench-stress: setup ## kvmark stress, cassandra-stress and cql-stress on one Cassandra node
	@$(BIN)/python -m bench.cql --only "stress write"

bench-report: setup ## How long the page of 200 cases takes, and its size
	@$(BIN)/python -m bench.report

bench-trace: setup ## What it costs to make a trace of a file, and to say what is in it
	@$(BIN)/python -m bench.trace

bench-replay: setup ## A replay at full speed beside operations drawn by chance
	@$(BIN)/python -m bench.replay

bench-tap: setup ## What a tap costs beside HAProxy, MONITOR and no tap, before one Redis
	@$(BIN)/python -m bench.tap

bench-startup: setup ## How soon help, completion and what reads 2,000 runs answer
	@$(BIN)/python -m bench.startup

docs: setup ## Write the references and pictures that are made from the source
	$(BIN)/python scripts/references.py
	$(BIN)/python scripts/pictures.py

site: setup ## Build the documents as a site, strict about links; open site/index.html
	@$(BIN)/python scripts/website.py

coverage: setup ## Simulate how often intervals hold the truth, into docs/method/intervals.md
	$(BIN)/python scripts/interval_coverage.py

measure: setup ## Measure and store a published report: REPORT=hcassandra MINUTES=120
	@$(BIN)/python scripts/measure.py $(REPORT) $(addprefix --minutes ,$(MINUTES))

# Versions and hashes for every platform and no address: any index or mirror can install them.
COMPILE := uv pip compile --quiet --no-header --no-annotate --no-emit-index-url \
	--no-emit-find-links --universal --generate-hashes --upgrade
EXTRAS := --extra dev --extra fleet --extra serve
lock: ## Resolve the Python dependencies again, with uv, into the lock files
	$(COMPILE) pyproject.toml $(EXTRAS) --output-file requirements.lock
	$(COMPILE) --group wheel --output-file requirements-wheel.lock
	$(COMPILE) --group site --constraint requirements.lock --output-file requirements-site.lock

clean: ## Remove builds and caches of this clone; runs and the shared target folder stay
	@rm -rf .venv dist site .cache .*_cache scripts/.ruff_cache .hypothesis
	@rm -f report*.html python/kvmark/*.so
	@find python tests scripts bench -name __pycache__ -prune -exec rm -r {} +
