#!/bin/bash
# Checks the build for aarch64 from another machine: type-checks server and reader, builds the guest and the loop of tasks for their
# static target and, where qemu-user-static is installed, starts them.
# The server carries the programs of sandboxes as bytes; empty files stand for them in its check.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() {
    echo "skipped: the check for aarch64 needs $1"
    exit
}
compiler=aarch64-linux-gnu-gcc
command -v "$compiler" >/dev/null || skip "a cross compiler for the C parts (apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"
for target in aarch64-unknown-linux-gnu aarch64-unknown-linux-musl; do
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] || skip "the Rust target (rustup target add $target)"
done
export CC_aarch64_unknown_linux_gnu=$compiler CC_aarch64_unknown_linux_musl=$compiler
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=$compiler

cargo build --release --locked --quiet --target aarch64-unknown-linux-musl --bin sandyard-guest --bin sandyard-agent \
    --package sandyard-guest --package sandyard-agent
cargo check --release --locked --quiet --target aarch64-unknown-linux-musl --package sandyard-reader
built=${CARGO_TARGET_DIR:-target}/aarch64-unknown-linux-musl/release
# Each says what it lacks and ends: the guest the name of a role, the loop of tasks its socket.
starts() {
    local said
    said=$(qemu-aarch64-static "$built/$1" 2>&1 || true)
    [[ $said == *"$2"* ]] && return
    echo "error: $1 for aarch64 does not start: $said" >&2
    exit 1
}
if command -v qemu-aarch64-static >/dev/null; then
    starts sandyard-guest 'no role is named'
    starts sandyard-agent SANDYARD_AGENT_SOCKET
else
    echo "skipped: starting programs for aarch64 needs qemu-user-static"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
touch "$folder"/sandyard-{guest,agent,reader}
SANDYARD_GUEST_BINARY=$folder/sandyard-guest \
    cargo check --release --locked --quiet --target aarch64-unknown-linux-gnu --package sandyard-cli
