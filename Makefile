# The short way to everything; meson does the work. `make help` lists the targets.
BUILD ?= build
SOURCES = $(shell git ls-files -co --exclude-standard '*.c' '*.h')
.PHONY: build deps demo test asan tsan format install wheel clean help

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja: | deps
	meson setup $(BUILD)

# Looks for what building needs; installs it where that can be done, otherwise says how and stops.
deps:
	@.ci/deps

# The same program twice: on one small card without the pool, then on eight with it.
demo: build
	@examples/demo.sh $(BUILD)

# Everything: the checks, all tests, the tests under ASan and UBSan, the stress test under TSan.
test: build
	@.ci/deps test
	@python3 tests/run_all.py --build $(BUILD)

asan: deps
	@python3 tests/run_all.py --only asan

tsan: deps
	@python3 tests/run_all.py --only tsan

format:
	clang-format -i $(SOURCES)

install: build
	meson install -C $(BUILD)

# For pip; needs PyPI once, for the tools that build it.
wheel: $(BUILD)/build.ninja
	@.ci/wheel $(BUILD) dist

clean:
	rm -rf dist $(BUILD) build-asan build-tsan build-clang

help:
	@echo 'make [build]   build/vrampool, build/shim, build/examples, build/tests'
	@echo 'make demo      a program too large for its card: without the pool, then with it'
	@echo 'make test      all tests, also under ASan, UBSan and TSan; ends with their count'
	@echo 'make asan      the tests under ASan and UBSan alone (build-asan)'
	@echo 'make tsan      the stress tests under TSan alone (build-tsan)'
	@echo 'make format    clang-format over the sources'
	@echo 'make install   to /usr/local, or as meson setup --prefix says'
	@echo 'make wheel     dist/vrampool-*.whl, to install with pip'
	@echo 'make clean     remove the build folders and dist'
