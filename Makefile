# Two commands do everything: make demo, make test; make docs builds the site. Needed besides make: Python 3.11+ and Java 17+.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
EXTRAS ?= test
WORKERS ?= 2
STAMP := $(VENV)/.installed-$(EXTRAS)
CLASSES := $(VENV)/spark.jsa
QUIET := --quiet --quiet --disable-pip-version-check --no-warn-script-location  # but for errors
# Whatever the shell says: a module is compiled when it is first imported, not by each of the hundreds of processes of the tests.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test fuzz lint check plain pythons docs bench clean java

# Six buckets on four partitions: two partitions get two of them, so that there is something to balance. The edges are
# partitioned too, in buckets of the column that they are joined by, as in the paper.
demo: java $(STAMP)
	mkdir -p demo
	$(BIN)/semi-naive tc graphs/p2p-gnutella09.tsv.gz --plan balanced --set buckets=6 --set partitions=4 \
	  --set replicate_bytes=0 --trace demo/run.json --plot demo/balance.png
	@echo "the picture of the balance: demo/balance.png; the record of the run: demo/run.json"

# In two processes, a file of tests in one of them: most tests keep one core busy. WORKERS=0: in this one. ROOM=planning: the tests
# of one room, those in tests/planning.
test: java $(CLASSES)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(if $(ROOM),tests/$(ROOM))

# Spark's classes as Java keeps them, which tests/conftest.py says to the Javas of the tests. Without them all is the same.
$(CLASSES): $(STAMP) tests/classes_of_spark.py
	-@PYSPARK_PYTHON=$(BIN)/python SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit=$@ -Xlog:disable" \
	  $(BIN)/spark-submit --conf spark.ui.enabled=false tests/classes_of_spark.py >$@.log 2>&1

# Random programs against the oracle, and against Soufflé where SOUFFLE names its folder; then the random tests with new seeds.
COUNT ?= 500
SEED := $(or $(SEED),$(shell date +%s))
fuzz: $(STAMP)
	$(BIN)/python -m bench.fuzz --count $(COUNT) --seed $(SEED) $(if $(SOUFFLE),--souffle $(SOUFFLE))
	FUZZ_TIMES=$(or $(TIMES),1) FUZZ_SEED=$(SEED) HYPOTHESIS_PROFILE=search \
	  $(BIN)/python -m pytest --hypothesis-seed=$(SEED) -m "random or hypothesis" tests

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PATH="$(abspath $(BIN)):$$PATH" sh .ci/types

# All that must pass. Of three at a time (`make -j 3`) the tests begin once they are installed, while the wheel is still tested: of
# two they would be the last to begin, and run alone.
check: test plain pythons lint

plain:
	.ci/plain

# But for the one that `plain` runs on, which does more there.
pythons:
	.ci/pythons $(filter-out $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'),3.11 3.12 3.13)

# The site of docs/, in build/site. A link that leads nowhere is an error.
docs:
	$(MAKE) EXTRAS=docs $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "the site: build/site/index.html"

bench: java
	$(MAKE) EXTRAS=test,bench $(VENV)/.installed-test,bench
	$(BIN)/python -m bench.closure

java:
	@PATH="$${JAVA_HOME:+$$JAVA_HOME/bin:}$$PATH" sh .ci/java

$(VENV)/.installed-%: setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; $(PYTHON) is $$($(PYTHON) --version). Say which: make PYTHON=python3.12" >&2; exit 2; }
	@echo "installing into $(VENV), which takes a minute or two"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install $(QUIET) --upgrade pip  # 27 s of processor time with it, 34 with that of Python 3.11
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pip install $(QUIET) --no-compile --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build demo *.egg-info .pytest_cache .ruff_cache .hypothesis
