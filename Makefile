# demo: the answer to the main question.  test: everything a change must pass.  bench: figures of speed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
DEMO = .venv
TEST = .venv-test
SOURCES = $(shell find simnet topologies scenarios -type f -not -name '*.pyc')

.PHONY: demo test lint bench clean

demo: $(DEMO)/.installed
	$(DEMO)/bin/simnet run scenarios/monolithic-vs-modular.yaml -o results/

test: lint
	$(TEST)/bin/pytest -n 2 -q

lint: $(TEST)/.installed
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/ruff check .
	$(TEST)/bin/mypy
	$(TEST)/bin/lint-imports --no-logo

bench: $(TEST)/.installed
	$(TEST)/bin/pytest tests/bench -q -p no:randomly --benchmark-enable --benchmark-only

clean:
	rm -rf $(DEMO) $(TEST) results build dist

$(DEMO)/.installed: pyproject.toml $(SOURCES)
	test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check .
	touch $@

$(TEST)/.installed: pyproject.toml
	test -x $(TEST)/bin/python || $(PYTHON) -m venv $(TEST)
	$(TEST)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test,lint]'
	touch $@
