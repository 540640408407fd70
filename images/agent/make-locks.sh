#!/bin/bash
# Renews the lock files of all flavours from their `*.in` files and package.json.
# Needs uv and npm; run by a person who then reviews the difference.
set -euo pipefail
cd "$(dirname "$0")"

for input in flavours/*/*.in; do
    uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
        --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
        "$input" --output-file "${input%.in}.lock"
done

# `resolved` would name the registry of whoever made the lock.
(cd flavours/full/npm && npm install --package-lock-only --ignore-scripts \
    --omit-lockfile-registry-resolved --no-audit --no-fund)
