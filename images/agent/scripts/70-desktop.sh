#!/bin/bash
# Settings of the desktop and the browser.
. "$RECIPE/scripts/env.sh"

# A sandbox denies nested user namespaces and setuid helpers, so Chromium's own sandbox
# cannot start; the sandbox around it is the wall. /dev/shm is small.
mkdir -p /etc/chromium.d
cat >/etc/chromium.d/sandyard <<'FLAGS'
export CHROMIUM_FLAGS="$CHROMIUM_FLAGS --no-sandbox --test-type --disable-dev-shm-usage --no-first-run --no-default-browser-check --password-store=basic --disable-background-networking --disable-component-update"
FLAGS
# Debian's own look at /dev/shm, which the flags above make pointless, fails where it is not mounted.
rm -f /etc/chromium.d/dev-shm

fc-cache --force --system-only
command -v Xvnc openbox xdotool xdot
chromium --version
