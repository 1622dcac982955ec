# Headwater's development commands. `make` alone lists them.
#
# Everything is installed into .venv and built into build/; nothing outside this folder changes, except
# that the system's Java, and a MariaDB server and Chromium for the tests, are installed where there is none and we are root. What is about to be installed is
# said first; `make NO_SYSTEM=1 ...` never does it.
# Two stamp files keep the set-up quick when nothing has changed: one for the locked tools and
# libraries, one for the wheel that is built from the working tree.

VENV  := .venv
BIN   := $(VENV)/bin
DIST  := build/dist
LOCK  := requirements/dev.lock
PIP   := $(BIN)/python -m pip --disable-pip-version-check --no-input
pip-of = $(1)/bin/python -m pip --disable-pip-version-check --no-input install -q
COMPILE = build/lock-venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

# The same files give the same wheel, byte for byte.
export SOURCE_DATE_EPOCH ?= 1580601600

DEPS  := $(VENV)/.deps-installed
WHEEL := $(VENV)/.wheel-installed

# The object stores that `make object-store` has.
MINIO := v0.0.0-20260212201848-7aac2a2c5b7c
AZURITE := 3.35.0

# Test processes that run side by side: two more than most machines that test have cores, since many
# tests wait. Who is done takes over from the others.
JOBS ?= 4
SIDE_BY_SIDE = -n $(JOBS) --dist worksteal

# What the wheel is made of. Folders are listed too, so that a removed file is noticed.
SOURCES := $(shell find src -name __pycache__ -prune -o -print 2>/dev/null) \
           pyproject.toml LICENSE $(wildcard README.md)

# The tests are to see the installed wheel, whatever the caller's shell has set.
unexport PYTHONPATH
unexport PYTHONHOME
unexport PIP_USER

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

# ------------------------------------------------------------------------------------- commands

.PHONY: test
test: lint mariadb chromium ## set up, run all the checks, then the tests against the installed wheel
	$(BIN)/pytest $(SIDE_BY_SIDE)

.PHONY: lint
lint: setup ## check style, format, types and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: $(DEPS) ## put the code into the project's format
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

.PHONY: demo
demo: setup ## set up, then views over live databases, and a proof (about a minute)
	$(BIN)/headwater demo

.PHONY: stress
stress: setup mariadb chromium ## run all the tests and the long randomized ones, with many more examples
	HEADWATER_STRESS=1 $(BIN)/pytest $(SIDE_BY_SIDE) -m "stress or not stress"

.PHONY: object-store
object-store: ## have real object stores for the tests: MinIO from its Go module, Azurite from npm
	@command -v go >/dev/null || { echo "make object-store needs Go 1.24 or newer."; exit 1; }
	GOBIN=$(CURDIR)/build/object-store/bin go install -ldflags="-s -w" github.com/minio/minio@$(MINIO)
	@if command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --prefix build/object-store azurite@$(AZURITE); \
	  else echo "Azurite, for Azure, was left out: it needs npm."; fi

.PHONY: yarn
yarn: ## have a small YARN for the stress tests, from Maven: Hadoop's own
	@command -v mvn >/dev/null || { echo "make yarn needs Maven."; exit 1; }
	mkdir -p build/yarn
	mvn -q -B -f tests/clusters/yarn_cluster/pom.xml dependency:build-classpath -Dmdep.outputFile=$(CURDIR)/build/yarn/classpath
	javac -d build/yarn -cp "$$(cat build/yarn/classpath)" tests/clusters/yarn_cluster/MiniYarn.java

.PHONY: bench
bench: setup ## run every measurement
	@for name in explore papers backlog channels reading; do $(BIN)/headwater bench $$name; done

.PHONY: docs
docs: setup ## renew the generated tables and pictures of the documentation
	@for name in eca strobe; do $(BIN)/headwater bench papers $$name --full --into docs/papers >/dev/null; done
	$(BIN)/python docs/generate.py
	$(BIN)/headwater lab spectrum --plot docs/img/spectrum.svg >/dev/null
	$(BIN)/python docs/picture.py

.PHONY: lock
lock: ## renew the lock after a change to pyproject.toml (LOCK_FLAGS=--upgrade takes newer releases)
	@$(call make-venv,build/lock-venv)
	$(call pip-of,build/lock-venv) --require-hashes -r requirements/lock-tool.lock
	$(COMPILE) pyproject.toml --group dev --output-file $(LOCK) $(LOCK_FLAGS)
	$(COMPILE) requirements/lock-tool.in --output-file requirements/lock-tool.lock $(LOCK_FLAGS)
	$(COMPILE) requirements/audit.in --output-file requirements/audit.lock $(LOCK_FLAGS)

.PHONY: audit
audit: ## look for known weaknesses in what the lock pins (needs the network; for a schedule)
	@$(call make-venv,build/audit-venv)
	$(call pip-of,build/audit-venv) --require-hashes -r requirements/audit.lock
	build/audit-venv/bin/pip-audit --require-hashes --disable-pip -r $(LOCK)

.PHONY: sbom
sbom: $(DEPS) ## write a bill of materials of what the lock pins to build/sbom.json
	@mkdir -p build
	$(BIN)/python requirements/sbom.py $(LOCK) >build/sbom.json

.PHONY: twice
twice: $(DEPS) ## build the wheel twice, from two copies of the files, and compare
	@rm -rf build/twice; mkdir -p build/twice
	@for copy in a b; do \
	  mkdir build/twice/$$copy && cp -r src pyproject.toml LICENSE README.md build/twice/$$copy/ && \
	  $(BIN)/python -m build --wheel --no-isolation --outdir build/twice/wheel-$$copy build/twice/$$copy \
	    >build/twice/$$copy.log 2>&1 || { cat build/twice/$$copy.log >&2; exit 1; }; \
	done
	@cd build/twice && for wheel in wheel-a/*.whl; do \
	  cmp "$$wheel" "wheel-b/$${wheel#wheel-a/}" && sha256sum "$$wheel"; done

.PHONY: clean
clean: ## remove everything that was installed, built or cached
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# --------------------------------------------------------------------------------------- set-up

.PHONY: setup
setup: java $(WHEEL) ## only set up: Java if missing, .venv with the locked tools and the wheel

# Spark needs Java. Where it is missing and we may, the system's is installed.
.PHONY: java
java:
	@$(has-java) || $(install-java)

$(WHEEL): $(DEPS) $(SOURCES)
	@rm -rf $(DIST); mkdir -p $(DIST)
	$(BIN)/python -m build --wheel --no-isolation --outdir $(DIST) . >build/wheel.log 2>&1 \
	  || { cat build/wheel.log >&2; exit 1; }
	$(PIP) install -q --no-index --no-deps --force-reinstall $(DIST)/*.whl
	@touch $@

$(DEPS): $(LOCK)
	@$(call make-venv,$(VENV))
	$(PIP) install -q --require-hashes -r $(LOCK)
	@touch $@

# Succeeds if the Java that Spark will find (JAVA_HOME, else the PATH) is new enough.
JAVA_VERSION := 17
has-java = \
  major=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1); \
  test "$${major:-0}" -ge $(JAVA_VERSION)

install-java = { \
  if [ -z "$(NO_SYSTEM)$$JAVA_HOME" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
    mkdir -p build; \
    for package in default-jre-headless openjdk-$(JAVA_VERSION)-jre-headless; do \
      echo "Java $(JAVA_VERSION) or newer was not found; about to run, as root: apt-get install $$package (make NO_SYSTEM=1 ... never does)."; \
      { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$package; } \
        >build/java.log 2>&1; \
      if $(has-java); then exit 0; fi; \
    done; \
    tail -n 5 build/java.log >&2; \
  fi; \
  echo "Headwater needs Java $(JAVA_VERSION) or newer for Spark: install one (on Debian and Ubuntu: apt install default-jre-headless), or point JAVA_HOME at it, and run make again." >&2; \
  exit 1; }

# Tests of MariaDB need its server. Where it is missing and we may, the system's is installed, which
# starts no service; else those tests are skipped, and say so. In continuous integration they run.
.PHONY: mariadb
mariadb:
	@PATH="$$PATH:/usr/sbin"; command -v mariadbd >/dev/null || $(install-mariadb)

install-mariadb = { \
  if [ -z "$(NO_SYSTEM)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
    mkdir -p build; \
    echo "MariaDB's server was not found; about to run, as root: apt-get install mariadb-server-core, for the tests (make NO_SYSTEM=1 ... never does)."; \
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends mariadb-server-core; } \
      >build/mariadb.log 2>&1 && exit 0; \
    tail -n 5 build/mariadb.log >&2; \
  fi; \
  echo "The tests of MariaDB are skipped: they need its server (on Debian and Ubuntu: apt install mariadb-server-core)." >&2; }

# Tests of the dashboard need a browser: Chromium, on the same terms.
.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || $(install-chromium)

install-chromium = { \
  if [ -z "$(NO_SYSTEM)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
    mkdir -p build; \
    echo "Chromium was not found; about to run, as root: apt-get install chromium, for the tests (make NO_SYSTEM=1 ... never does)."; \
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } \
      >build/chromium.log 2>&1 && exit 0; \
    tail -n 5 build/chromium.log >&2; \
  fi; \
  echo "The tests of the dashboard in a browser are skipped: they need Chromium (on Debian and Ubuntu: apt install chromium)." >&2; }

# $(call make-venv,FOLDER): make a virtual environment, unless a working one is there, with the
# first Python >= 3.11 found. A candidate is run, not just looked up, because a name on the PATH
# may be a launcher with nothing behind it. `make PYTHON=...` chooses one.
make-venv = \
  if $(1)/bin/python -m pip --version >/dev/null 2>&1; then exit 0; fi; \
  for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.14 python); do \
    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
      rm -rf $(1); mkdir -p build; \
      if "$$python" -m venv $(1) >build/venv.log 2>&1; then exit 0; fi; \
      rm -rf $(1); cat build/venv.log >&2; \
      echo "'$$python -m venv' failed: install the venv module of that Python (on Debian and Ubuntu: apt install python3-venv) and run make again." >&2; \
      exit 1; \
    fi; \
  done; \
  echo "Headwater needs Python 3.11 or newer and found none: install one, or name it with 'make PYTHON=/path/to/python3 ...'." >&2; \
  exit 1
