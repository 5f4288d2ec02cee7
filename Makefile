# All commands for developers. `make help` lists them.
# Needs only Python 3.11+ and make: every target builds its prerequisites.

PORT ?= 9092
DATA ?= ./data
DEMO ?= 1
ARGS ?=

# The fastest installed Python that is new enough; `make PYTHON=/path/to/python` chooses another.
PYTHON ?= $(eval PYTHON := $(shell scripts/fastest-python))$(PYTHON)

BIN := .venv/bin
RUN_READY := .venv/ready-to-run
SPARK_READY := .venv/ready-for-spark
DEV_READY := .venv/ready-to-develop
# Modules are compiled when they are first imported, which takes a fraction of the time of compiling all of them.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: abuse chaos failover fuzz crash diff sim help run setup test test-all test-browser flaky coverage check format bench bench-cluster bench-console bench-peers bench-scale bench-shares bench-spark bench-tls spark-chaos docs docs-site lock release-check screenshots container-check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The broker starts first and is usable immediately; the command in --set-up then installs Spark.
run: $(RUN_READY) ## Start a broker on localhost:9092 with a web console and a live Spark demo; DEMO=0 without the demo (PORT=, DATA=, ARGS=)
	@echo "Starting the broker ..."
ifeq ($(DEMO),0)
	@exec $(BIN)/penstock start --data "$(DATA)" --port "$(PORT)" --console $(ARGS)
else
	@exec $(BIN)/penstock demo --data "$(DATA)" --port "$(PORT)" --set-up "make --no-print-directory $(SPARK_READY)" $(ARGS)
endif

setup: $(DEV_READY) ## Create .venv with the penstock command and the development tools

test: $(DEV_READY) ## Run the fast tests on all cores in random order (ARGS= is passed to pytest)
	@$(BIN)/python -m tests $(ARGS)

test-all: test ## Run all tests: `make test`, then the slow tests, then those in a browser
	@$(BIN)/python -m tests --slow $(ARGS)
	@$(BIN)/python -m tests --browser $(ARGS)

test-browser: $(DEV_READY) ## Test the web console in Chromium; skips the tests if it is not installed
	@$(BIN)/python -m tests --browser $(ARGS)

PART ?= unit
flaky: ROUNDS ?= 7
flaky: $(DEV_READY) ## Run one test suite repeatedly under stress and report flaky tests (PART=, ROUNDS=, SEED=)
	@$(BIN)/python -m tests.flaky "$(PART)" --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

coverage: $(DEV_READY) ## Measure branch coverage and enforce the minimums
	@$(BIN)/python -m tests.coverage $(ARGS)

check: $(DEV_READY) ## Lint, type-check, enforce import layers and sizes, and guard the cost of requests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q tests/unit/test_tidy.py
	@$(BIN)/python -m benchmarks.guard

format: $(DEV_READY) ## Sort imports and format the code with ruff
	@$(BIN)/ruff check --fix --select I .
	@$(BIN)/ruff format .

bench: $(DEV_READY) ## Benchmark the broker, and Apache Kafka for comparison if Java is installed (ARGS=)
	@$(BIN)/python -m benchmarks $(ARGS)

bench-cluster: $(DEV_READY) ## Benchmark a three-node cluster, and Apache Kafka for comparison if Java is installed (ARGS=)
	@$(BIN)/python -m benchmarks.replication $(ARGS)

bench-tls: $(DEV_READY) ## Benchmark TLS and logins, and Apache Kafka for comparison if Java is installed (ARGS=)
	@$(BIN)/python -m benchmarks.tls $(ARGS)

bench-console: $(DEV_READY) ## Measure the web console against its limits; needs Chromium (ARGS=)
	@$(BIN)/python -m benchmarks.console $(ARGS)

bench-scale: $(DEV_READY) ## Benchmark nodes with 100, 1,000 and 10,000 partitions, and Apache Kafka for comparison if Java is installed (ARGS=)
	@$(BIN)/python -m benchmarks.scale $(ARGS)

bench-peers: $(DEV_READY) ## Compare the broker with Apache Kafka in every kind of work, and write docs/performance.md (ARGS=)
	@$(BIN)/python -m benchmarks.peers $(ARGS)

bench-shares: $(DEV_READY) ## Benchmark share groups, and Apache Kafka for comparison; needs Java (ARGS=)
	@$(BIN)/python -m benchmarks.shares $(ARGS)

bench-spark: $(DEV_READY) ## Benchmark the Spark source and sink, and Spark's Kafka connector for comparison if Maven is installed (ARGS=)
	@$(BIN)/python -m benchmarks.spark $(ARGS)

docs: $(DEV_READY) ## Regenerate docs/configuration.md and docs/metrics.md
	@$(BIN)/python -m penstock.config.reference > docs/configuration.md
	@$(BIN)/python -m penstock.metrics.reference > docs/metrics.md

screenshots: $(DEV_READY) ## Take the pictures of the web console in docs/images/console (needs Chromium; ARGS=)
	@$(BIN)/python -m scripts.console_screenshots $(ARGS)

docs-site: .venv-docs/ready ## Build the documentation in site/, which can be viewed offline (the first build needs npm)
	@.venv-docs/bin/python scripts/docs_site.py
	@echo "open site/index.html"

FRAMES ?= 200000
SEED ?= 1
fuzz: $(DEV_READY) ## Fuzz a live broker with mutated requests (FRAMES=, SEED=)
	@PENSTOCK_FUZZ_FRAMES=$(FRAMES) PENSTOCK_FUZZ_SEED=$(SEED) $(BIN)/python -m pytest tests/fuzz $(ARGS)

crash: ROUNDS ?= 300
crash: $(DEV_READY) ## Kill the broker repeatedly under load, and crash it at every disk call (ROUNDS=, LIVES= data directories)
	@PENSTOCK_FOLDER_LIVES=$(LIVES) PENSTOCK_KILL_ROUNDS=$(ROUNDS) PENSTOCK_BANK_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/crash $(ARGS)

MINUTES ?= 5
chaos: $(DEV_READY) ## Inject faults into a three-node cluster under real clients (MINUTES=, SEED=)
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) --seed $(SEED) $(ARGS)

SECONDS ?= 10
ATTACK ?=
PEER ?=
abuse: $(DEV_READY) ## Attack a live node while a well-behaved client uses it (SECONDS=, ATTACK=, SEED=, PEER=kafka, ARGS=)
	@$(BIN)/python -m tests.abuse --seconds $(SECONDS) --seed $(SEED) $(foreach one,$(ATTACK),--attack '$(one)') $(if $(PEER),--peer $(PEER)) $(ARGS)

KILLS ?= 30
failover: $(DEV_READY) ## Measure how long producers wait when a leader is killed (KILLS=)
	@$(BIN)/python -m tests.chaos.failover --kills $(KILLS)

diff: $(DEV_READY) ## Send the same requests to Apache Kafka and Penstock and compare the responses; needs Java and Maven (ARGS=)
	@$(BIN)/python -m tests.differential $(ARGS)

SEEDS ?= 200
FIRST ?= 1
BUG ?=
sim: $(DEV_READY) ## Run the cluster simulator (SEEDS=, FIRST=, BUG= plants a bug, ARGS=)
	@$(BIN)/python -m penstock_sim --seeds $(SEEDS) --first $(FIRST) $(if $(BUG),--bug $(BUG)) $(ARGS)

SPARK_KILLS ?= 60
spark-chaos: $(DEV_READY) ## Kill Spark workers, the driver and cluster nodes during a stream, and check its rows (SPARK_KILLS=, SEED=)
	@$(BIN)/python -m tests.spark.chaos --kills $(SPARK_KILLS) --seed $(SEED)

release-check: $(DEV_READY) ## Build both distributions, install them outside the clone, and test them
	@$(BIN)/python scripts/release_check.py

container-check: $(DEV_READY) ## Run the steps of the container image in an empty directory, and use the result
	@$(BIN)/python scripts/container_check.py

# The locks hold for every supported Python and name no registry, so they work behind a mirror too.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-package penstock-client
lock: $(DEV_READY) ## Regenerate the lock files after a change of dependencies (ARGS=--upgrade)
	$(COMPILE) $(ARGS) pyproject.toml requirements/build.in --extra console -o requirements/run.lock
	$(COMPILE) $(ARGS) pyproject.toml requirements/build.in --extra console --extra spark -c requirements/run.lock -o requirements/spark.lock
	$(COMPILE) $(ARGS) pyproject.toml requirements/build.in --extra dev -c requirements/spark.lock -o requirements/dev.lock
	$(COMPILE) $(ARGS) requirements/docs.in -o requirements/docs.lock

clean: ## Remove build output; data is kept
	rm -rf .venv .venv-docs site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info client/src/*.egg-info

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Cannot find Python 3.11 or newer: install it, or run 'make PYTHON=/path/to/python'." >&2; exit 1; }
	@echo "Building .venv with $$("$(PYTHON)" --version), $(PYTHON)"
	@scripts/with-progress "Creating the environment" "$(PYTHON)" -m venv --clear .venv || { rm -rf .venv; echo "The venv module is missing: on Debian and Ubuntu, 'apt install python3-venv'." >&2; exit 1; }

$(RUN_READY): $(BIN)/python pyproject.toml client/pyproject.toml requirements/run.lock
	@scripts/with-progress "Installing the broker and its commands, once (about 30 s)" $(PIP_INSTALL) --require-hashes --requirement requirements/run.lock
	@scripts/with-progress "Installing this project" $(PIP_INSTALL) --no-deps --no-build-isolation --editable client --editable .
	@touch $@

$(SPARK_READY): $(RUN_READY) requirements/spark.lock
	@$(BIN)/python -m pip install --disable-pip-version-check --no-compile --progress-bar off --require-hashes --requirement requirements/spark.lock
	@touch $@

$(DEV_READY): $(RUN_READY) requirements/dev.lock
	@scripts/with-progress "Installing the development tools and Spark, once (a few minutes)" $(PIP_INSTALL) --require-hashes --requirement requirements/dev.lock
	@touch $@

# Separate from .venv, because the site's tools and the broker may need different versions.
.venv-docs/ready: $(BIN)/python requirements/docs.lock
	@$(BIN)/python -m venv --clear .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/docs.lock
	@touch $@
