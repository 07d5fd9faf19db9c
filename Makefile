# Each target sets up what it needs: a virtual environment with pinned versions, once.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.installed

# What Python has compiled is kept, also where the environment says otherwise: so only what is used is compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test slow coverage lint package docs bench fuzz clean

demo: $(READY)
	$(BIN)/fencepost predict "The University of Toronto's president met Ada Lovelace in London."
	rm -rf demo-model
	$(BIN)/fencepost train --train sample:train --dev sample:dev --test sample:test --out demo-model --epochs 8
	$(BIN)/fencepost predict demo-model --input sample:test --limit 4

test: $(READY)
	$(BIN)/pytest --numprocesses 2

slow: $(READY)
	$(BIN)/pytest -m slow

coverage: $(READY)
	$(BIN)/pytest --numprocesses 2 --cov --cov-report term

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

package: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m build --no-isolation --wheel --outdir dist fencepost-models
	$(BIN)/python tools/smoke_test.py dist

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(READY)
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.corpus_io
	$(BIN)/python -m benchmarks.head_cost
	$(BIN)/python -m benchmarks.memory

fuzz: $(READY)
	$(BIN)/python -m benchmarks.fuzz_readers
	$(BIN)/python -m benchmarks.fuzz_models

$(READY): pyproject.toml constraints.txt fencepost-models/pyproject.toml
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev,docs,hub,ray,serve,tables,train,tune]' --editable ./fencepost-models
	touch $@

clean:
	rm -rf .venv .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist site demo-model
