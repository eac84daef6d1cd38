# Every target sets up what it needs in .venv; `make demo` and `make test` are the two to know.
PYTHON ?= python3
BIN := .venv/bin
# The same versions today and in a year.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
export COTERIE_DATA ?= $(wildcard $(CURDIR)/../shared/data)

.PHONY: demo test test-failed lint types paper leaderboard unequal robustness landmarks speed tables docs picture clean

demo: .venv/demo
	$(BIN)/coterie demo

test: .venv/dev
	$(BIN)/python -m pytest -n auto

# Those that failed last time, one after the other.
test-failed: .venv/dev
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

# What is measured goes to benchmarks/results; each can be stopped and goes on where it stopped.
paper leaderboard unequal robustness landmarks speed: .venv/dev
	$(BIN)/python -m benchmarks $@

# README's and the docs' tables, from the results.
tables: .venv/dev
	$(BIN)/python -m benchmarks tables

docs: .venv/docs
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

# README's picture is the manual's.
picture: docs
	cp docs/_pictures/start/first_report/digits.png docs/images/report.png

.venv/python:
	$(PYTHON) -m venv .venv
	touch $@

.venv/demo: .venv/python pyproject.toml constraints.txt
	$(INSTALL) --editable ".[report]"
	touch $@

.venv/dev: .venv/python pyproject.toml constraints.txt
	$(INSTALL) --editable ".[dev]"
	touch $@ .venv/demo

.venv/docs: .venv/python pyproject.toml constraints.txt
	$(INSTALL) --editable ".[docs]"
	touch $@ .venv/demo

clean:
	rm -rf .venv .pytest_cache .ruff_cache .mypy_cache docs/_build docs/_pictures docs/gallery docs/reference/generated
