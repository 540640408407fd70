#!/bin/bash
# Compiles Python, then takes out what the build needed and a sandbox must not have.
. "$RECIPE/scripts/env.sh"

# On a read-only root Python can't write its cache later; without it ipykernel starts
# three times slower. Timestamps would not survive a copy: check by hash, unchecked.
python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash \
    -x '/(lib2to3/tests|bad_coding|badsyntax)' \
    /usr/lib/python3* /usr/local/lib/python3* >/dev/null || true

rm -f /usr/sbin/policy-rc.d /etc/apt/apt.conf.d/99mmdebstrap /etc/apt/sources.list
rm -rf /etc/apt/sources.list.d/* /etc/apt/auth.conf /etc/apt/auth.conf.d/*
cat >/etc/apt/sources.list.d/debian.sources <<'SOURCES'
Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES

rm -rf /var/lib/apt/lists/* /var/lib/apt/lists/.fresh /var/cache/apt/* /var/cache/debconf/*-old \
    /var/cache/ldconfig/* /var/lib/dpkg/*-old /var/log/* /var/tmp/* /root/.[!.]*
find /tmp -mindepth 1 -maxdepth 1 -exec rm -rf {} +
find /usr/share/doc -type f ! -name copyright -delete
find /usr/share/doc -type d -empty -delete
rm -rf /usr/share/man/* /usr/share/info/* /usr/share/lintian

# An empty machine-id is filled by whoever boots; dbus only needs the file to exist.
: >/etc/machine-id
rm -f /var/lib/dbus/machine-id
[ ! -d /var/lib/dbus ] || ln -sf /etc/machine-id /var/lib/dbus/machine-id
printf 'sandbox\n' >/etc/hostname 2>/dev/null || true

# No program may gain privilege by being executed.
find / -xdev \( -type f -o -type d \) -perm /6000 -exec chmod ug-s {} +
python3 - <<'STRIP'
import os
for folder, _, names in os.walk("/usr"):
    for name in names:
        path = os.path.join(folder, name)
        if "security.capability" in os.listxattr(path, follow_symlinks=False):
            os.removexattr(path, "security.capability", follow_symlinks=False)
STRIP
