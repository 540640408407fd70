#!/bin/bash
# Checks the types of web/ against the OpenAPI document that the server's tests keep. Works in a copy: the checkout stays clean.
set -euo pipefail
cd "$(dirname "$0")/.."
modules=$(scripts/setup.sh modules web)
if [ ! -d "$modules" ]; then
    echo "skipped: the types of web/ need its modules (scripts/setup.sh test)"
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r web/src web/tsconfig.json web/types.mjs web/package.json "$folder"
ln -s "$modules/node_modules" "$folder/node_modules"
SANDYARD_OPENAPI=$PWD/crates/server/src/http/snapshots/sandyard_server__http__openapi__tests__openapi.snap
export SANDYARD_OPENAPI
cd "$folder"
npm run --silent check
