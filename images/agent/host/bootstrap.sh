#!/bin/bash
# Lays out a minimal Debian with mmdebstrap: what `FROM debian:bookworm-slim` is to a
# container build. Runs on the host as root in a mount and pid namespace of its own, so
# that killing it leaves neither mounts nor processes.
#   bootstrap.sh ROOT SCRATCH SUITE SOURCES APT_OPTIONS
set -euo pipefail
. "$(dirname "$0")/mount-tree.sh"
mount_tree "$1" "$2"
suite=$3 sources=$4 apt_options=$5

options=()
while IFS= read -r option; do
    options+=("--aptopt=$option")
done <"$apt_options"

mmdebstrap --mode=root --variant=apt --format=directory \
    --skip=cleanup/apt,output/mknod,output/dev --dpkgopt=force-unsafe-io \
    --dpkgopt=path-exclude=/usr/share/doc/* --dpkgopt=path-include=/usr/share/doc/*/copyright \
    --dpkgopt=path-exclude=/usr/share/man/* --dpkgopt=path-exclude=/usr/share/locale/* \
    "${options[@]}" "$suite" "$tree" "$sources"

# mmdebstrap leaves the host's name and resolver behind, its own settings and devices.
rm -f "$tree"/etc/apt/apt.conf.d/99mmdebstrap "$tree"/etc/dpkg/dpkg.cfg.d/99mmdebstrap
rm -rf "$tree"/dev/* "$tree"/run/* "$tree"/etc/resolv.conf
: >"$tree/etc/resolv.conf"
echo sandbox >"$tree/etc/hostname"
printf '127.0.0.1 localhost sandbox\n::1 localhost\n' >"$tree/etc/hosts"
touch "$tree/var/lib/apt/lists/.fresh"
