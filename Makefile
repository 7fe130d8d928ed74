# Two commands on a fresh machine: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CARGO ?= cargo
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
RUST_SOURCES := $(shell find rust/*/src -type f) rust/Cargo.toml $(wildcard rust/*/Cargo.toml)
export PYTHONDONTWRITEBYTECODE = 1
comma := ,

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# What is missing is said in one line, with what to do.
.PHONY: toolchain
toolchain: ## Check that there is what a build takes
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "make: this takes Python 3.11 or later: install it, or name one, as in 'make PYTHON=python3.12'" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "make: $(PYTHON) lacks the module venv: install it, as by 'apt-get install python3-venv'" >&2; exit 1; }
	@command -v $(CARGO) >/dev/null && printf '1.85\n%s\n' "$$(rustc --version 2>/dev/null | cut -d' ' -f2)" | sort -CV || { \
	  echo "make: this takes Rust 1.85 or later (cargo and rustc): install it with rustup, or update it by 'rustup update'" >&2; \
	  exit 1; }
	@command -v cc >/dev/null || { \
	  echo "make: this takes a C compiler (cc): install one, as by 'apt-get install gcc'" >&2; exit 1; }

# $(call fetch,COMMAND,OF WHAT): COMMAND, whose output is shown in a file if it fails.
fetch = $(1) >$(VENV)/fetch.log 2>&1 || { \
	  echo "make: $(2) cannot be fetched: is there a network, or a mirror that is configured? $(VENV)/fetch.log says more" >&2; \
	  exit 1; }

$(VENV)/.tools: pyproject.toml | toolchain
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(call fetch,$(BIN)/python -m pip install -q --upgrade pip 'maturin>=1.9$(comma)<2',Python packages)
	@$(call fetch,$(BIN)/python -m pip install -q --group test --group lint --group docs,Python packages)
	touch $@

$(VENV)/.built: $(VENV)/.tools $(RUST_SOURCES) $(wildcard rust/profiles/*) | toolchain
	@$(call fetch,$(CARGO) fetch --quiet --locked --manifest-path rust/Cargo.toml,Rust crates)
	@# A profile is of a target that is named.
	RUSTFLAGS="$$($(BIN)/python build_backend/penstock_profile.py)" \
	  $(BIN)/maturin develop --release --quiet --target $(HOST) $(FEATURES:%=--features %)
	@# Other features make a file of another name, and Python would load the older one.
	@ls -t python/penstock/_native.*.so | tail -n +2 | xargs -r rm
	touch $@

.PHONY: build
build: $(VENV)/.built ## Leave a release build in .venv

.PHONY: demo
demo: build ## Run the demo: a live video and a token stream through the gateway
	$(BIN)/penstock demo

.PHONY: status-page-images
status-page-images: build ## Draw the status page for the documents, of a gateway under load, in Chromium
	$(BIN)/python docs/draw_status_page.py

.PHONY: load-report-picture
load-report-picture: build ## Draw the report of a flash crowd for the documents, in Chromium
	$(BIN)/python docs/draw_load_report.py

.PHONY: test
test: compiled test-rust-build ## Run all tests
	@$(call side_by_side,test-rust-part $(PARTS:%=test-part-%))

# The interpreters that tests start would each compile the package anew.
.PHONY: compiled
compiled: build
	@$(BIN)/python -m compileall -q python

.PHONY: test-rust test-rust-build test-rust-part
test-rust: | toolchain ## Run the engine's tests
	cd rust && $(ENGINE_TESTS)

ENGINE_TESTS = $(CARGO) test --quiet --workspace --exclude penstock-python

# A compiler beside the tests would take the cores that they need.
test-rust-build: | toolchain
	@cd rust && $(ENGINE_TESTS) --no-run

# It depends on nothing: make would begin the other parts before it, and it takes all cores. Nothing is left to compile, and
# rustdoc warns about a job server that is not passed on.
test-rust-part:
	cd rust && MAKEFLAGS= $(ENGINE_TESTS)

# The engine's tests and the parts of the Python tests run side by side, the longest first: `make` has a part begin where another
# has ended. A part is a folder or a file, without the parts that are below it. A test waits for a third of its time and more,
# so there are two parts for each core. With three a server under test finds itself late, and refuses requests.
PARTS = tests/upgrade tests $(addprefix tests/,workers cache/test_ranges.py hub media load cache workers/test_serving.py dashboards \
  gateway metrics lane browsers deploy edge test_serve_names.py events workers/test_supervisor.py origins test_memory.py \
  test_typing.py configuration access)
JOBS = $(shell expr 2 '*' $$(nproc))
side_by_side = $(MAKE) --no-print-directory --keep-going --output-sync --jobs $(JOBS) $(1)

.PHONY: test-python $(PARTS:%=test-part-%)
test-python: compiled ## Run the Python tests
	@$(call side_by_side,$(PARTS:%=test-part-%))

# pytest keeps what it compiles: its plugins take two seconds to compile.
$(PARTS:%=test-part-%): test-part-%:
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q $* $(patsubst %,--ignore=%,$(filter $*/%,$(PARTS)))

.PHONY: test-aiohttp
test-aiohttp: build ## Run aiohttp's own suites of its server on penstock's Site (fetches them)
	$(BIN)/python tests/aiohttp_suites/run.py

# Environments of their own: of a group of packages each. A release is built and checked with other versions of zig and maturin
# than a checkout, which make other bytes.
$(foreach group,applications chart release tls,$(VENV)-$(group)/.tools): $(VENV)-%/.tools: pyproject.toml
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -q --upgrade pip
	$(@D)/bin/python -m pip install -q --group $*
	touch $@

$(VENV)-release/.tools: | toolchain

.PHONY: test-applications
test-applications: build $(VENV)-applications/.tools ## Run programs that use aiohttp's extensions on a Site and on aiohttp's server
	$(BIN)/python -m pytest -q tests/applications

# Tests whose pages import them are skipped without.
$(foreach folder,browsers dashboards,tests/$(folder)/node_modules): %/node_modules: %/package.json
	@command -v npm >/dev/null || { echo "make: this takes npm: install it, as by 'apt-get install npm'" >&2; exit 1; }
	npm install --prefix $* --ignore-scripts --no-audit --no-fund --no-package-lock --silent
	touch $@

.PHONY: browser-packages
browser-packages: tests/browsers/node_modules ## Fetch the JavaScript that pages of tests/browsers import

RELEASE = $(VENV)-release/bin/python .ci/release

.PHONY: wheel
wheel: $(VENV)-release/.tools ## Leave this machine's wheel in dist/, its debug information in dist/debug/
	$(RELEASE) build --abi3-only

.PHONY: test-wheel
test-wheel: build wheel ## Install the wheel of dist/ in a fresh directory without Rust, and run what it installs (needs Go)
	$(BIN)/python tests/collector_suites/run.py --build
	PENSTOCK_WHEEL=$$(ls -t dist/*-abi3-*$$(uname -m).whl | head -1) \
	  PENSTOCK_COLLECTOR=$$($(BIN)/python tests/collector_suites/run.py --build) \
	  $(BIN)/python -m pytest -q tests/shipping/test_fresh_directory.py tests/shipping/test_seen_from_outside.py

.PHONY: test-reproducible
test-reproducible: $(VENV)-release/.tools ## Build the wheel of the last commit in two other directories, and compare
	$(RELEASE) reproduce

.PHONY: test-sdist
test-sdist: $(VENV)-release/.tools ## Build a wheel from the source distribution without a network
	$(RELEASE) rebuild

# Rust's standard library for what is cross-compiled; zig brings the libraries of C.
.PHONY: release-targets
release-targets:
	rustup target add aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl

.PHONY: release
release: release-targets $(VENV)-release/.tools ## Build every file of a release into dist/, and check them: TAG=v1.2.3
	rm -rf dist
	$(RELEASE) build --platform all --sdist
	$(RELEASE) check $(if $(TAG),--tag $(TAG))

.PHONY: workflows
workflows: $(VENV)-release/.tools ## Check .github/workflows with zizmor and actionlint (needs Go)
	$(VENV)-release/bin/zizmor --offline --quiet .github/workflows
	@command -v go >/dev/null || { echo "make: this takes Go: install it, as by 'apt-get install golang'" >&2; exit 1; }
	go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 .github/workflows/*.yml

# The last commit whose upgrades speak protocol 1 alone.
OLDER = 5c2841397f47
.PHONY: test-older-build
test-older-build: build ## Upgrade from a build of before, and to it (builds it: minutes)
	rm -rf $(VENV)-older
	mkdir -p $(VENV)-older/source
	git archive $(OLDER) | tar -x -C $(VENV)-older/source
	$(PYTHON) -m venv $(VENV)-older/environment
	$(VENV)-older/environment/bin/pip install --quiet $(VENV)-older/source
	PENSTOCK_OLDER=$(abspath $(VENV)-older/environment) $(BIN)/python -m pytest -q tests/upgrade/test_older_build.py

.PHONY: test-tls
test-tls: build $(VENV)-tls/.tools ## Run testssl.sh and sslyze against `penstock serve` over TLS
	$(BIN)/python tests/tls_suites/run.py

.PHONY: test-chart
test-chart: $(VENV)-chart/.tools ## Lint, render and validate the Helm chart; takes helm, HELM=its path. RECORD=1 writes what is rendered
	$(VENV)-chart/bin/python tests/chart_suites/run.py $(if $(RECORD),--record)

.PHONY: test-image
test-image: $(VENV)/.tools ## Build the image on Debian packages and run it; takes root, mmdebstrap, buildah, crun and a wheel in dist/
	$(BIN)/python tests/image_suites/run.py

.PHONY: test-aarch64
test-aarch64: build ## Run the wheel for aarch64 of dist/ under qemu; takes mmdebstrap, qemu-user-static and `make release`
	$(BIN)/python tests/aarch64_suites/run.py

.PHONY: test-http2
test-http2: build ## Run h2spec against a native route, an application and the cache
	$(BIN)/python tests/http2_suites/run.py

.PHONY: dashboards
dashboards: ## Write the dashboards for Grafana and the rules for Prometheus
	$(PYTHON) dashboards/generate.py

.PHONY: dashboard-pictures
dashboard-pictures: build ## Draw the dashboards over a load of a minute and a half, for the documentation
	PENSTOCK_PICTURES=docs/images $(BIN)/python -m pytest -q -o faulthandler_timeout=0 tests/dashboards/test_under_load.py

.PHONY: dashboard-types
dashboard-types: tests/dashboards/node_modules ## Check the dashboards by the types of Grafana itself (fetches them)
	$(PYTHON) tests/dashboards/types_of_grafana.py

.PHONY: test-collector
test-collector: build ## Send traces to an OpenTelemetry Collector (needs Go, which builds it: minutes)
	$(BIN)/python tests/collector_suites/run.py

.PHONY: structure
structure: ## Show circles of imports and other figures of the code; RECORD=1 takes from the record what is gone
	$(PYTHON) .ci/structure $(if $(RECORD),--record)

.PHONY: lint
lint: build structure words docs ## Check format, lints, types, stubs, imports and documents
	cd rust && $(CARGO) fmt --all --check
	cd rust && $(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	cd rust && RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --no-deps --workspace
	$(BIN)/ruff format --check python tests benchmarks examples dashboards .ci/release build_backend
	$(BIN)/ruff check python tests benchmarks examples dashboards .ci/release build_backend
	$(BIN)/mypy
	MYPYPATH=.ci/release:build_backend $(BIN)/mypy .ci/release/*.py
	MYPYPATH=build_backend $(BIN)/mypy build_backend/*.py
	$(BIN)/python -m mypy.stubtest penstock._native
	$(BIN)/hadolint packaging/image/Dockerfile

.PHONY: words
words: ## Check the words of .ci/words.toml; SHOW=docs lists what a place has, RECORD=1 lowers the limits
	$(PYTHON) .ci/words.py $(if $(SHOW),--show $(SHOW)) $(if $(RECORD),--record)

.PHONY: docs
docs: $(VENV)/.tools ## Build the documentation site into .site; a dead link fails
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --builder html docs .site

.PHONY: man
man: build ## Write the manual pages, docs/man, from the commands
	$(BIN)/python docs/generate_manual.py

.PHONY: format
format: $(VENV)/.tools ## Format everything
	cd rust && $(CARGO) fmt --all
	$(BIN)/ruff format python tests benchmarks examples dashboards .ci/release build_backend
	$(BIN)/ruff check --fix-only python tests benchmarks examples dashboards .ci/release build_backend

.PHONY: cache-tests
cache-tests: $(VENV)/.built ## Score the cache with http-tests/cache-tests: CACHE_TESTS=its checkout
	$(BIN)/python benchmarks/cache_tests.py $(CACHE_TESTS)

.PHONY: wycheproof
wycheproof: ## Run Wycheproof's vectors of JSON Web Signatures and Keys: WYCHEPROOF=its checkout
	cd rust && WYCHEPROOF=$(abspath $(WYCHEPROOF)) $(CARGO) test --quiet -p penstock-auth --lib -- --ignored tokens::tests::wycheproof

.PHONY: eventsource-tests
eventsource-tests: $(VENV)/.built ## Run suites of EventSource through penstock: WPT= and EVENTSOURCE= their checkouts
	$(BIN)/python benchmarks/eventsource_tests.py $(if $(WPT),--wpt $(WPT)) $(if $(EVENTSOURCE),--eventsource $(EVENTSOURCE))

.PHONY: events-churn
events-churn: build ## Two thousand subscribers that come and go for two minutes
	PENSTOCK_CHURN_SECONDS=120 PENSTOCK_CHURN_FOLLOWERS=2000 $(BIN)/python -m pytest -q -o faulthandler_timeout=0 tests/hub/test_churn.py

.PHONY: adversary
adversary: build ## Attack `penstock serve` with 32 MiB for three minutes, beside an honest client
	cd benchmarks && $(abspath $(BIN))/python -m adversary

# Models are not what is shipped: without the linker's optimisation they are built in a part of the time.
.PHONY: loom
loom: ## Model-check what two threads touch
	cd rust && RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 $(CARGO) test --release --quiet -p penstock-memory -p penstock-auth -p penstock-engine --lib --target-dir target/loom loom

.PHONY: simulate simulate-planted
simulate: | toolchain ## Simulate the engine: 500 seeds, SEEDS=n of them, or SEED=n alone, of TEST=the name of a test
	@cd rust && SEED=$(SEED) SEEDS=$(SEEDS) $(CARGO) test --quiet $(if $(SEEDS),--profile simulation) -p penstock-engine --lib -- --nocapture $(or $(TEST),simulation::)

simulate-planted: | toolchain ## Show that the simulations find the bugs that are planted for them (BUG=one)
	@$(PYTHON) .ci/planted_bugs.py $(BUG)

.PHONY: fuzz
fuzz: ## Run the fuzz targets in turn (nightly, cargo-fuzz): MINUTES= of processor time for each, PROCESSES= at once, TARGETS= of them
	$(PYTHON) .ci/fuzz.py --minutes $(or $(MINUTES),60) --jobs $(or $(PROCESSES),1) $(TARGETS)

.PHONY: miri
miri: ## Run the memory tests under Miri (needs a nightly toolchain with miri)
	cd rust && MIRIFLAGS="-Zmiri-permissive-provenance" $(CARGO) +nightly miri test -p penstock-memory -p penstock-http -p penstock-engine --lib -- pool:: framing:: stream:: --skip upstream::

.PHONY: sanitize
sanitize: ## Run the threaded tests under the thread sanitizer (needs a nightly toolchain with rust-src)
	cd rust && RUSTFLAGS=-Zsanitizer=thread $(CARGO) +nightly test --quiet -Zbuild-std --target $(HOST) --target-dir target/tsan -p penstock-memory -p penstock-http -p penstock-engine --lib -- pool:: stream:: framing:: --skip upstream::

.PHONY: test-interpreters
test-interpreters: $(VENV)/.tools ## Run the Python tests on every interpreter at hand
	$(BIN)/python .ci/interpreters.py

.PHONY: bench
bench: build ## Measure the boundary and compare the gateway with its peers
	$(BIN)/python -m pytest -q --benchmark-enable --benchmark-json=benchmarks/results/boundary.json benchmarks/test_boundary.py
	$(BIN)/python benchmarks/compare.py

.PHONY: profile
profile: build ## Record what runs often in the engine, for the compiler (needs llvm-tools of rustup; quarter of an hour)
	$(BIN)/python benchmarks/record_profile.py

.PHONY: counts
counts: build ## Count instructions and calls per request; AGAINST=FILE fails if a row is higher than in that run
	$(BIN)/python benchmarks/counts.py $(if $(AGAINST),--against $(AGAINST))

.PHONY: counts-check
counts-check: build ## Count penstock's rows once, and fail if one is higher than in benchmarks/results/counts.json
	@# 2: the results were made with other tools.
	$(BIN)/python benchmarks/counts.py --check || test $$? = 2

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(VENV) rust/target
