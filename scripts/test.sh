#!/bin/bash
# Runs the whole suite: installs missing packages, builds the images, runs every test.
# Arguments go to nextest. SANDYARD_SOAK=1 adds the long soaks.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
# Tests set address and data folder of their servers themselves.
unset SANDYARD_URL SANDYARD_TOKEN SANDYARD_DATA SANDYARD_LISTEN SANDYARD_CONFIG SANDYARD_DRIVER SANDYARD_MODEL
# No server of a test needs the full image, and building it would starve all of them.
export SANDYARD_IMAGES=base

scripts/setup.sh test
# Builds tests and binaries with the features of the run below, so that nothing is compiled twice.
cargo nextest run --release --locked --workspace --no-run
"$target/release/sandyard" image build --flavour base
# The base image in the form of virtual machines, with Debian's kernel.
"$target/release/sandyard" image build --flavour base --format vm
# The full image has kernels, desktop and browser. Its first build takes minutes.
"$target/release/sandyard" image build --flavour full

profile=default
[ -z "${SANDYARD_SOAK:-}" ] || profile=soak
rm -f "target/nextest/$profile/junit.xml"
output=$(mktemp)
trap 'rm -f "$output"' EXIT
code=0
cargo nextest run --release --locked --workspace --no-fail-fast --profile "$profile" "$@" 2>&1 | tee "$output" || code=$?

# One plain line with the counts, for people and for scripts.
summary=$(sed 's/\x1b\[[0-9;]*m//g' "$output" | grep 'Summary \[' | tail -1 || true)
count() {
    grep -oE "[0-9]+ $1" <<<"$summary" | grep -oE '^[0-9]+' || echo 0
}
failed=$(($(count failed) + $(count 'timed out')))
# A tier that can't run here prints the reason. nextest writes its report into the checkout.
reasons=$(grep -ohE 'skipped: [^&<]*' "target/nextest/$profile/junit.xml" 2>/dev/null || true)
[ -z "$reasons" ] || sort <<<"$reasons" | uniq -c
skipped=$(grep -c . <<<"$reasons" || true)
echo "$(count passed) passed, $failed failed, $skipped skipped"
# The driver on another kind of host.
[ -z "${SANDYARD_SOAK:-}" ] || scripts/vm-test.sh || code=1
# The recipe under plain `docker build`.
[ -z "${SANDYARD_SOAK:-}" ] || scripts/dockerfile-test.sh || code=1
exit "$code"
