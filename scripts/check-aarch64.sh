#!/bin/bash
# Type-checks the server for aarch64, and what runs in a sandbox for its static target, from another machine.
# Nothing is linked or run. The server carries the guest's programs as bytes; empty files stand for them here.
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
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
touch "$folder"/sandyard-{guest,agent,reader}
cargo check --release --locked --quiet --target aarch64-unknown-linux-musl \
    --package sandyard-guest --package sandyard-agent --package sandyard-reader
SANDYARD_GUEST_BINARY=$folder/sandyard-guest \
    cargo check --release --locked --quiet --target aarch64-unknown-linux-gnu --package sandyard-cli
