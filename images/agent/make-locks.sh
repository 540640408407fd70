#!/bin/bash
# Renews the lock files of all flavours from their `*.in` files and package.json.
# Needs uv and npm; run by a person who then reviews the difference.
set -euo pipefail
cd "$(dirname "$0")"

for input in flavours/{base,full,dev}/*.in; do
    # A flavour that starts from another must agree with what is there.
    there=$(mktemp)
    case $input in
        flavours/full/*) cat flavours/base/python.lock ;;
        flavours/dev/*) cat flavours/{base,full}/python.lock ;;
    esac | sed -n 's/^\([^ ]*==[^\\]*\).*/\1/p' >"$there"
    uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
        --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
        --constraint "$there" "$input" --output-file "${input%.in}.lock"
    rm "$there"
done

# `resolved` would name the registry of whoever made the lock, and `funding` holds addresses too.
for folder in flavours/*/npm; do
    (cd "$folder" && npm install --package-lock-only --ignore-scripts \
        --omit-lockfile-registry-resolved --no-audit --no-fund)
    node -e 'const fs = require("fs"), file = process.argv[1], lock = JSON.parse(fs.readFileSync(file));
        for (const entry of Object.values(lock.packages)) delete entry.funding;
        fs.writeFileSync(file, JSON.stringify(lock, null, 2) + "\n");' "$folder/package-lock.json"
done
