# One front door, the same by hand and in .ci/run. A recipe is one line; longer work is a program.

PYTHON ?= python3
BIN := .venv/bin
CARGO := $(PYTHON) scripts/cargo.py
# One profile for the product, its tests and its lints: RocksDB is compiled once.
RELEASE := --release --locked

.DEFAULT_GOAL := help
.PHONY: help quickstart setup check format test bench bench-engine bench-rocksdb bench-redis
.PHONY: bench-cql bench-apps bench-scale bench-stress bench-report docs readme lock clean

help: ## List the commands
	@$(PYTHON) scripts/help.py $(MAKEFILE_LIST)

quickstart: setup ## Install what is missing, build, and run YCSB on embedded RocksDB
	@$(BIN)/kvmark ycsb

setup: ## Install what is missing, build the engine, and install kvmark into .venv
	@$(PYTHON) scripts/setup.py

check: setup ## Format, lints, types, generated references, style
	cargo fmt --all --check
	$(CARGO) clippy $(RELEASE) --workspace --all-targets -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy scripts tests/tidy tests/setup
	$(BIN)/mypy --explicit-package-bases bench
	$(BIN)/python scripts/references.py --check
	$(BIN)/pytest -q tests/tidy

format: setup ## Format Rust and Python
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup ## Run all tests, Rust then Python, on real servers and a browser where they are
	@$(PYTHON) scripts/needs.py
	$(CARGO) test $(RELEASE) --workspace --exclude kvmark-pyext --no-run
	$(BIN)/python scripts/with_cassandra.py $(CARGO) test $(RELEASE) --workspace --exclude kvmark-pyext
	$(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

BENCHES := bench-engine bench-rocksdb bench-redis bench-cql bench-apps bench-scale bench-stress \
	bench-report
bench: $(BENCHES) ## All benchmarks; each prints a table

bench-engine: setup ## What the engine itself costs, beside its bounds
	@$(BIN)/python -m bench.engine

bench-rocksdb: setup ## kvmark, a bare loop and YCSB on the same RocksDB database
	$(BIN)/python -m bench.rocksdb.compare

bench-redis: setup ## kvmark, redis-benchmark, resp-benchmark, YCSB and go-ycsb on one Redis
	@$(BIN)/python -m bench.redis

bench-cql: setup ## kvmark, latte and YCSB on one Cassandra node
	@$(BIN)/python -m bench.cql

bench-apps: setup ## The YugabyteDB sample applications' cost, and memory over ten minutes
	@$(BIN)/python -m bench.apps

bench-scale: setup ## Memory and processor time of 10,000 clients in one process
	@$(BIN)/python -m bench.scale

bench-stress: setup ## kvmark stress, cassandra-stress and cql-stress on one Cassandra node
	@$(BIN)/python -m bench.stress

bench-report: setup ## How long the page of 200 cases takes, and its size
	@$(BIN)/python -m bench.report

docs: setup ## Write the references and pictures that are made from the source
	$(BIN)/python scripts/references.py
	$(BIN)/python scripts/pictures.py

readme: setup ## Measure the quickstart's sequence and put its table into the README
	@$(BIN)/python scripts/readme.py

lock: setup ## Resolve the Python dependencies anew into requirements.lock
	$(BIN)/python scripts/lock.py

clean: ## Remove what was built in this clone; runs and the shared target folder stay
	@$(PYTHON) scripts/clean.py
