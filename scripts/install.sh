#!/bin/bash
# Installs a built binary with manual, completions and systemd unit. Honours PREFIX and DESTDIR.
#   install.sh BINARY
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$1
prefix=${DESTDIR:-}${PREFIX:-/usr/local}

install -D -m 755 "$binary" "$prefix/bin/sandyard"
install -d "$prefix/share/man/man1"
"$binary" man "$prefix/share/man/man1"
install -d "$prefix/share/bash-completion/completions" "$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d"
"$binary" completions bash >"$prefix/share/bash-completion/completions/sandyard"
"$binary" completions zsh >"$prefix/share/zsh/site-functions/_sandyard"
"$binary" completions fish >"$prefix/share/fish/vendor_completions.d/sandyard.fish"
unit=${DESTDIR:-}/etc/systemd/system/sandyard.service
install -D -m 644 packaging/systemd/sandyard.service "$unit"
sed -i "s#/usr/local/bin/sandyard#${PREFIX:-/usr/local}/bin/sandyard#" "$unit"
# The user that the server becomes. In an image that is being built (DESTDIR) the package's own script makes it; without it the server
# takes an id that no user has.
if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ] && ! getent passwd sandyard >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin sandyard
fi
