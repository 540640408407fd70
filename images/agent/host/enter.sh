#!/bin/bash
# Runs one step inside a root. Runs on the host as root in a mount and pid namespace of
# its own; every mount is made there and vanishes with it.
#   enter.sh ROOT RECIPE INPUTS COMMAND...
set -euo pipefail
root=$1 recipe=$2 inputs=$3
shift 3

mount --make-rprivate /
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -m 1777 "$root/dev/shm"
mkdir "$root/run/lock" "$root/run/recipe" "$root/run/inputs"
mount --bind -o ro "$recipe" "$root/run/recipe"
mount --bind -o ro "$inputs" "$root/run/inputs"
for file in /etc/resolv.conf /etc/hosts; do
    mount --bind -o ro "$file" "$root$file"
done

exec chroot "$root" "$@"
