#!/bin/bash
# The whole suite: installs what is missing, prepares the base image, runs every test.
# Arguments go to nextest. SANDYARD_SOAK=1 adds the long soaks.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
# Tests say themselves where their server and data are.
unset SANDYARD_URL SANDYARD_TOKEN SANDYARD_DATA SANDYARD_LISTEN SANDYARD_CONFIG SANDYARD_DRIVER SANDYARD_MODEL
# No server of a test needs the full image, and building it would starve all of them.
export SANDYARD_IMAGES=base

scripts/setup.sh test
# Tests and their binaries are built as they will be run, so that nothing is compiled twice.
cargo nextest run --release --locked --workspace --no-run
"$target/release/sandyard" image build --flavour base
# The same as virtual machines boot it, with Debian's kernel.
"$target/release/sandyard" image build --flavour base --format vm
# Kernels, desktop and browser are in this one; minutes when it is not there yet.
"$target/release/sandyard" image build --flavour full

profile=default
[ -z "${SANDYARD_SOAK:-}" ] || profile=soak
rm -f "target/nextest/$profile/junit.xml"
output=$(mktemp)
trap 'rm -f "$output"' EXIT
code=0
cargo nextest run --release --locked --workspace --no-fail-fast --profile "$profile" "$@" 2>&1 | tee "$output" || code=$?

# One plain line that counts, whoever reads it.
summary=$(sed 's/\x1b\[[0-9;]*m//g' "$output" | grep 'Summary \[' | tail -1 || true)
count() {
    grep -oE "[0-9]+ $1" <<<"$summary" | grep -oE '^[0-9]+' || echo 0
}
failed=$(($(count failed) + $(count 'timed out')))
# A tier that can't run here says why, in its own output. nextest keeps its report in the checkout.
reasons=$(grep -ohE 'skipped: [^&<]*' "target/nextest/$profile/junit.xml" 2>/dev/null || true)
[ -z "$reasons" ] || sort <<<"$reasons" | uniq -c
skipped=$(grep -c . <<<"$reasons" || true)
echo "$(count passed) passed, $failed failed, $skipped skipped"
# The driver on another kind of host.
[ -z "${SANDYARD_SOAK:-}" ] || scripts/vm-test.sh || code=1
# The recipe under plain `docker build`.
[ -z "${SANDYARD_SOAK:-}" ] || scripts/dockerfile-test.sh || code=1
exit "$code"
