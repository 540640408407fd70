# Thin: every target is one script or a few calls of cargo.
export CARGO_TARGET_DIR ?= target
SANDYARD := $(CARGO_TARGET_DIR)/release/sandyard

.PHONY: help build run test test-all check bench install

help:
	@echo "make run       install missing packages, build, serve on 127.0.0.1:8000, show a first job"
	@echo "make build     $(SANDYARD)"
	@echo "make test      the whole suite, including real sandboxes"
	@echo "make test-all  the whole suite and the long soaks"
	@echo "make check     formatting, lints, licences, documentation"
	@echo "make bench     measurements beside bubblewrap, runc, docker and an empty handler"
	@echo "make install   binary, manual, completions and systemd unit below PREFIX (/usr/local)"

# The example activates the dependency features of tests, so that `make test` compiles nothing twice.
build:
	scripts/setup.sh build
	cargo build --release --locked --workspace --bin sandyard --bin sandyard-image --example empty_handler

run:
	scripts/run.sh

test:
	scripts/test.sh

test-all:
	SANDYARD_SOAK=1 scripts/test.sh

check:
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --workspace --no-deps --document-private-items
	scripts/check-web.sh
	scripts/check-aarch64.sh
	@if command -v cargo-deny >/dev/null; then cargo deny --log-level error check bans licenses sources; \
	else echo "skipped: cargo-deny is not installed"; fi

bench: export SANDYARD_IMAGES = base
bench:
	scripts/setup.sh bench
	cargo build --release --locked --workspace --bin sandyard --bin sandyard-image --examples
	$(SANDYARD) image build --flavour base
	python3 bench/start.py
	python3 bench/rates.py
	python3 bench/idle.py
	python3 bench/adopt.py
	python3 bench/drivers.py
	python3 bench/desktop.py
	python3 bench/agent.py
	python3 bench/console.py

install: build
	scripts/install.sh $(SANDYARD)
