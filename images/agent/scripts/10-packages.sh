#!/bin/bash
# Installs the flavour's Debian packages and those asked for with --with.
. "$RECIPE/scripts/env.sh"

# Kept in the image so that packages added later are as lean. Licences stay.
mkdir -p /etc/dpkg/dpkg.cfg.d
cat >/etc/dpkg/dpkg.cfg.d/lean <<'CONFIG'
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/lintian/*
path-exclude=/usr/share/locale/*
path-include=/usr/share/locale/locale.alias
CONFIG

# Nothing may start a service while the image is made.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d

options=(-y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io -o Acquire::Languages=none
    -o Acquire::Retries=3)
if [ -n "${PROGRESS:-}" ]; then
    # A descriptor of its own: apt closes it for its children.
    exec 3>&1
    options+=(-o APT::Status-Fd=3)
fi

# The builder may have just fetched the lists of exactly these sources.
if [ ! -e /var/lib/apt/lists/.fresh ]; then
    apt-get "${options[@]}" -qq update
fi
rm -f /var/lib/apt/lists/.fresh
apt-get "${options[@]}" -qq upgrade
# shellcheck disable=SC2046,SC2086 # lists of words on purpose
apt-get "${options[@]}" -qq install $(entries "$FLAVOUR_DIR/packages") $WITH
apt-get clean
