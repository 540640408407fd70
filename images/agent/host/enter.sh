#!/bin/bash
# Runs one step inside a root. Runs on the host as root in a mount and pid namespace of
# its own; every mount is made there and vanishes with it.
#   enter.sh ROOT SCRATCH RECIPE INPUTS COMMAND...
set -euo pipefail
. "$(dirname "$0")/mount-tree.sh"
mount_tree "$1" "$2"
recipe=$3 inputs=$4
shift 4

mount -t proc proc "$tree/proc"
mount -t tmpfs -o mode=755 tmpfs "$tree/run"
mount -t tmpfs -o mode=755 tmpfs "$tree/dev"
for device in null zero full random urandom tty; do
    touch "$tree/dev/$device"
    mount --bind "/dev/$device" "$tree/dev/$device"
done
ln -s /proc/self/fd "$tree/dev/fd"
mkdir -m 1777 "$tree/dev/shm"
mkdir "$tree/run/lock" "$tree/run/recipe" "$tree/run/inputs"
mount --bind -o ro "$recipe" "$tree/run/recipe"
mount --bind -o ro "$inputs" "$tree/run/inputs"
for file in /etc/resolv.conf /etc/hosts; do
    mount --bind -o ro "$file" "$tree$file"
done

exec chroot "$tree" "$@"
