#!/bin/bash
# The flavour's npm packages, from its lock, as global packages.
. "$RECIPE/scripts/env.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$FLAVOUR_DIR"/npm/package.json "$FLAVOUR_DIR"/npm/package-lock.json "$work/"
cd "$work"
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error

rm -f node_modules/.package-lock.json
mkdir -p /usr/local/lib/node_modules
# Links of node_modules/.bin are relative to the packages beside them.
for link in node_modules/.bin/*; do
    target=$(readlink "$link")
    ln -sf "../lib/node_modules/${target#../}" "/usr/local/bin/${link##*/}"
done
rm -rf node_modules/.bin
cp -r node_modules/. /usr/local/lib/node_modules/
tsc --version
