# All targets use one environment, .venv, with the exact versions of requirements-dev.txt. DATA is the folder of the data sets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Compiled files are kept, whatever the shell says: without them every process of the tests compiles torch and Flower anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup run tree lint compiled test test-long test-hosts test-pages accept comparisons paper bench gpu docs compat reference lock wheel release hub clean

VENV := .venv
PY := $(VENV)/bin/python
ROOMS := server_app client_app strategies geometry tasks deployments extensions
# Test processes: one a core. Each imports and collects all tests, which takes it 20 seconds.
WORKERS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) < 8 ? $$(getconf _NPROCESSORS_ONLN) : 8 )))
# uv instead of pip: it installs only into this environment, whatever else is active, and takes a minute where pip takes ten.
INSTALL = $(VENV)/bin/uv pip install --quiet --python $(PY)
LOCK = $(VENV)/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --no-annotate --no-header --generate-hashes
CYCLONEDX := 7.5.0
DIST := dist
HUB := dist/hub/curvfed
CHROMIUM := chromium google-chrome google-chrome-stable chromium-browser chrome

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.stamp ## make .venv and install everything

run: setup ## FlatLand with `flwr run`, 10 clients: on trees, or with DATA=folder on Cora; ARGS="key=value ..." for more
ifdef DATA
	data=$$(cd "$(DATA)" && pwd) && $(PY) -m curvfed run method=flatland dataset=cora data-dir="$$data" num-rounds=100 $(ARGS)
else
	$(PY) -m curvfed run method=flatland dataset=trees $(ARGS)
endif

# A copy of the folders below `curvfed/`, as in the wheel: tools that read without importing do not see what `__path__` adds.
tree:
	rm -rf build/tree && mkdir -p build/tree && cp -pr curvfed build/tree && cp -pr $(ROOMS) build/tree/curvfed && rm -rf build/tree/curvfed/extensions/*/tests

lint: setup tree
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	cd build/tree && "$(CURDIR)/$(VENV)/bin/lint-imports" --config "$(CURDIR)/pyproject.toml"

# In a new environment every test process would compile all that the tests import; this does it once, while types are checked.
compiled: $(VENV)/.compiled
$(VENV)/.compiled: $(VENV)/.stamp
	-$(VENV)/bin/pytest --collect-only --ignore=tests/hosts > /dev/null 2>&1
	touch $@

# The end-to-end tests run separately, two at a time: they start processes of their own, and mostly wait for them.
test: setup ## lint, types, import layers, tests
	$(MAKE) --jobs=2 --no-print-directory lint compiled
	OMP_NUM_THREADS=1 $(VENV)/bin/pytest --numprocesses=$(WORKERS) --dist=worksteal --durations=20 -m "not long" --ignore=tests/hosts --ignore=tests/e2e --ignore=tests/long
	$(VENV)/bin/pytest --numprocesses=2 --dist=loadfile -m "not long" tests/e2e

test-long: setup ## longer tests: laws and oracles with more examples, the installed wheel with Flower, plug-ins on a cluster, the core's tests without extensions, every row of the benchmarks once
	OMP_NUM_THREADS=1 $(VENV)/bin/pytest --numprocesses=$(WORKERS) --dist=worksteal tests/laws tests/oracles extensions
	$(VENV)/bin/pytest tests/long
	$(VENV)/bin/pytest -m long --ignore=tests/long --ignore=tests/hosts --ignore=tests/laws --ignore=tests/oracles --ignore=extensions

# Separate from the other tests: these wait for Flower's leases, and need root to create network namespaces.
test-hosts: setup ## clusters whose hosts and connections fail: a SuperLink and SuperNodes in network namespaces (as root), ten on loopback
	$(VENV)/bin/pytest -rs tests/hosts

# Debian's packages, as root or by sudo; elsewhere install a Chromium, or name one by CURVFED_CHROMIUM.
test-pages: setup ## every kind of page in a browser, on screens and paper, light and dark; installs Chromium where there is none
	@if [[ -z "$${CURVFED_CHROMIUM:-}" ]] && ! command -v $(CHROMIUM) > /dev/null; then \
		sudo=$$(command -v sudo || true); \
		$$sudo apt-get update --quiet=2 && $$sudo apt-get install --quiet=2 --yes --no-install-recommends chromium fonts-dejavu-core; fi
	OMP_NUM_THREADS=1 $(VENV)/bin/pytest -rs tests/browser

accept: setup ## the acceptance tables, on which figures of the pages rest: DATA=folder
	$(PY) -m studies.accept --data "$(DATA)" $(ARGS)

comparisons: setup ## the comparisons of methods, tuned alike, into docs/measured: DATA=folder; half an hour each
	$(PY) -m studies.comparisons --data "$(DATA)" $(ARGS)

paper: setup ## the papers' tables and figures from our own runs, into docs/results: DATA=folder, SCALE=smoke or paper (for GPU hosts)
	$(PY) -m studies.papers --to docs/results $(if $(DATA),--data "$(DATA)") $(if $(SCALE),--scale $(SCALE)) $(ARGS)

bench: setup ## time ratios against peers and lower bounds, on trees or with DATA=folder on Cora
	$(PY) -m benchmarks $(if $(DATA),--data "$(DATA)") $(ARGS)

gpu: setup ## what only a GPU shows, in at most nine minutes, into docs/measured/gpu.md: DATA=folder
	$(PY) -m benchmarks.gpu $(if $(DATA),--data "$(DATA)") $(ARGS)

# The tests start Flower's programs by their names. The last lines compare a run's parameters with those under the pinned version.
compat: setup ## `flwr run`, clusters with TLS and a masked run under the newest Flower that installs, and the same bits as under the pinned one
	$(MAKE) VENV=.venv-compat .venv-compat/.compat-stamp
	export PATH="$(CURDIR)/.venv-compat/bin:$$PATH"; \
	pytest $(addprefix tests/e2e/test_,flwr_run.py small_cluster.py flower_wrapper.py); \
	pytest -m "not long" extensions/cluster/tests
	rm -rf build/compat
	for python in $(PY) .venv-compat/bin/python; do $$python -m curvfed simulate method=flatland dataset=trees num-rounds=3 \
		results-dir=build/compat run-name="$$($$python -c 'from importlib.metadata import version; print(version("flwr"))')"; done
	cd build/compat && sha256sum */model.safetensors && cmp */model.safetensors

docs: setup ## the site of the documentation, into build/site; a warning or a dead link inside it is an error
	$(VENV)/bin/sphinx-build --quiet --fail-on-warning --keep-going docs build/site
	@echo build/site/index.html

reference: setup ## regenerate the pages of methods, keys, commands, figures and files, the defaults in pyproject.toml, the index of methods, and README.md and docs/findings.md from docs/templates
	$(PY) docs/make_reference.py
	$(PY) docs/make_methods.py
	$(PY) docs/make_commands.py
	$(PY) docs/make_pages.py
	$(PY) docs/images/make_rooms.py

# One version of attrs for users with and without the extra `dp`, whose package needs an old one.
lock: setup ## regenerate both requirements files from pyproject.toml (`rm requirements.txt requirements-dev.txt` first to raise every version)
	$(LOCK) --constraint <(echo 'attrs<24') --output-file requirements.txt
	$(LOCK) --extra dev --constraint requirements.txt --output-file requirements-dev.txt

# One file with which a node installs all by one command, hashes checked: the wheel and what it needs.
wheel: setup ## the wheel, and the file of requirements with which a node installs it, in dist/
	rm -f "$(DIST)"/*.whl && $(VENV)/bin/uv build --quiet --wheel --out-dir "$(DIST)"
	root="$$PWD" && cd "$(DIST)" && for wheel in *.whl; do echo "./$$wheel --hash=sha256:$$(sha256sum $$wheel | cut -d ' ' -f 1)"; done | cat "$$root/requirements.txt" - > requirements-node.txt
	@cd "$(DIST)" && ls -l *.whl requirements-node.txt

release: setup ## wheel, source archive, bill of materials, checksums and the folder for Flower's hub in dist/, signed with `make release KEY=~/.ssh/id_ed25519`; uploads nothing
	rm -rf dist
	$(VENV)/bin/uv build --quiet --out-dir dist
	$(MAKE) --no-print-directory wheel
	$(VENV)/bin/uv tool run --quiet --from cyclonedx-bom==$(CYCLONEDX) cyclonedx-py requirements requirements.txt \
		--pyproject pyproject.toml --mc-type application --output-reproducible --output-file dist/$$(ls dist/*.whl | xargs basename --suffix=-py3-none-any.whl).cdx.json
	cd dist && rm -f .gitignore && sha256sum * > SHA256SUMS
	@if [[ -n "$(KEY)" ]]; then ssh-keygen -Y sign -f "$(KEY)" -n curvfed-release dist/SHA256SUMS; \
	else echo 'nothing is signed: KEY=~/.ssh/id_ed25519 names the key'; fi
	$(MAKE) --no-print-directory hub
	@cd dist && ls -l

# The hub takes at most a thousand files: what only developers need stays out.
hub: ## the folder for `flwr app publish`, of the last commit, whose README.md is the app's page on Flower's hub, in dist/hub/curvfed
	rm -rf "$(HUB)" && mkdir -p "$(HUB)"
	git archive HEAD ':!tests' ':!extensions/*/tests' ':!studies' ':!benchmarks' ':!docs/results' ':!docs/measured' | tar -x -C "$(HUB)"

clean: ## remove environments, caches and build products; results stay
	rm -rf .venv .venv-compat .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.fab
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/uv:
	$(call find-python); "$$python" -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement <(sed -n '/^uv==/,/[^\\]$$/p' requirements.txt)

$(VENV)/.stamp: requirements-dev.txt requirements-cells.txt pyproject.toml | $(VENV)/bin/uv
	$(INSTALL) --require-hashes --requirement requirements-dev.txt
	$(INSTALL) --no-deps --require-hashes --requirement requirements-cells.txt
	$(INSTALL) --no-deps --editable .
	touch $@

# The line of docs/install.md. Results depend on the versions that compute, so these are the tested ones; others fit that Flower.
.venv-compat/.compat-stamp: pyproject.toml requirements-dev.txt | $(VENV)/bin/uv
	$(INSTALL) --override <(echo 'flwr[simulation]>=1.40') --editable '.[dev]' \
		--constraint <(grep -oE '^(torch|torchvision|numpy|scipy|scikit-learn)==[^\]+' requirements-dev.txt)
	touch $@

# A Python command may exist but not run (the shims of version managers), or lack venv.
define find-python
for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	if "$$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; \
	then break; fi; python=; done; \
if [[ -z $$python ]]; then \
	echo "error: no Python 3.11, 3.12 or 3.13 (with venv) found; name one by 'make setup PYTHON=/path/to/python3.12'" >&2; \
	exit 1; fi
endef
