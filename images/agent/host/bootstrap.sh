#!/bin/bash
# Lays out a minimal Debian with mmdebstrap: what `FROM debian:bookworm-slim` is to a
# container build. Runs on the host as root in a mount and pid namespace of its own, so
# that killing it leaves neither mounts nor processes.
#   bootstrap.sh ROOT SUITE SOURCES APT_OPTIONS
set -euo pipefail
root=$1 suite=$2 sources=$3 apt_options=$4

options=()
while IFS= read -r option; do
    options+=("--aptopt=$option")
done <"$apt_options"

mmdebstrap --mode=root --variant=apt --format=directory \
    --skip=cleanup/apt,output/mknod,output/dev --dpkgopt=force-unsafe-io \
    --dpkgopt=path-exclude=/usr/share/doc/* --dpkgopt=path-include=/usr/share/doc/*/copyright \
    --dpkgopt=path-exclude=/usr/share/man/* --dpkgopt=path-exclude=/usr/share/locale/* \
    "${options[@]}" "$suite" "$root" "$sources"

# mmdebstrap leaves the host's name and resolver behind, its own settings and devices.
rm -f "$root"/etc/apt/apt.conf.d/99mmdebstrap "$root"/etc/dpkg/dpkg.cfg.d/99mmdebstrap
rm -rf "$root"/dev/* "$root"/run/* "$root"/etc/resolv.conf
: >"$root/etc/resolv.conf"
echo sandbox >"$root/etc/hostname"
printf '127.0.0.1 localhost sandbox\n::1 localhost\n' >"$root/etc/hosts"
touch "$root/var/lib/apt/lists/.fresh"
