#!/bin/bash
# Drivers on a host this machine may not be: a stock Debian kernel with version 2 control groups alone, in a virtual machine
# without hardware support (QEMU's own processor, one core). The native driver as root and as an ordinary user; `oci` with runc and crun.
#   vm-test.sh [--sets "root oci rootless doctor jobs"] [--only "TEST…"]
# Builds nothing: the tests must be compiled and the base image made. Three disks: a minimal Debian and the image are cached
# by content below $SANDYARD_CACHE/vm; the programs under test are packed anew each time.
set -euo pipefail
cd "$(dirname "$0")/.."
sets="root oci rootless doctor jobs"
only=all
while [ $# -gt 0 ]; do
    case $1 in
        --sets) sets=$2 ;;
        --only) only=$2 ;;
        *) echo "error: unknown argument $1" >&2 && exit 2 ;;
    esac
    shift 2
done
target=$(realpath "${CARGO_TARGET_DIR:-target}")
cache=${SANDYARD_CACHE:-/var/cache/sandyard}
memory_mib=2560
# Emulated processors are slow; the whole takes about this on a quiet machine of two cores, with room for a busy one.
patience_s=${SANDYARD_VM_PATIENCE_S:-5400}

skip() {
    echo "skipped: $1"
    exit 0
}
[ "$(uname -m)" = x86_64 ] || skip "the virtual machine needs an x86-64 host"
[ "$(id -u)" = 0 ] || skip "making the machine's disks needs root"
scripts/setup.sh vm || skip "needs qemu-system-x86, mmdebstrap and e2fsprogs"
image=$(find "$cache/images" -mindepth 2 -maxdepth 2 -name manifest.json -exec grep -l '"flavour": *"base"' {} + 2>/dev/null | xargs -r ls -t | head -1)
[ -n "$image" ] || skip "needs the base image: sandyard image build --flavour base"
image=$(dirname "$image")

# disk PATH LABEL TREE: an ext4 disk of a tree with some room, put in place when it is whole.
disk() {
    local size_mib
    size_mib=$(($(du -sm --apparent-size "$3" | cut -f1) * 5 / 4 + 96))
    mkfs.ext4 -q -F -L "$2" -O ^has_journal -m 0 -N $((size_mib * 96)) -d "$3" "$1.new" "${size_mib}M"
    mv "$1.new" "$1"
}

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
mkdir -p "$cache/vm"

# The suite of the host, because the programs under test were linked with its C library.
suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME" || echo bookworm)
packages=linux-image-cloud-amd64,kmod,uidmap,e2fsprogs,util-linux,passwd,procps,iproute2,runc,crun
key=$({ echo "$suite $packages"; cat scripts/vm/init.sh; } | sha256sum | cut -c1-16)
system=$cache/vm/system-$key
if ! [ -e "$system/disk.ext4" ]; then
    echo "making the test machine's system disk, which takes some minutes" >&2
    mirror=
    for sources in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
        [ ! -s "$sources" ] || mirror=$sources
    done
    mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        "$suite" "$work/system" ${mirror:+"$mirror"}
    install -m 755 scripts/vm/init.sh "$work/system/sbin/test-machine"
    mkdir -p "$system" "$work/system/var/cache/sandyard"
    cp "$work/system"/boot/vmlinuz-* "$system/kernel"
    cp "$work/system"/boot/initrd.img-* "$system/initrd"
    disk "$system/disk.ext4" system "$work/system"
    rm -rf --one-file-system "$work/system"
fi

images=$cache/vm/images-$(basename "$image").ext4
if ! [ -e "$images" ]; then
    rm -f "$cache"/vm/images-*.ext4
    mkdir -p "$work/images/images"
    cp -a "$image" "$work/images/images/"
    disk "$images" images "$work/images"
    rm -rf --one-file-system "$work/images"
fi

# Test programs name the launcher and the probe by absolute path.
binaries=$(cargo nextest list --release --locked --workspace -E 'binary(native) | binary(oci)' --list-type binaries-only --message-format json 2>/dev/null)
binary() {
    grep -o "\"$target/release/deps/$1-[0-9a-f]*\"" <<<"$binaries" | tr -d '"' | head -1
}
native=$(binary native)
oci=$(binary oci)
for program in "$native" "$oci" "$target/release/sandyard" "$target/release/sandyard-launcher" \
    "$target"/guest-build/*/guest/sandyard-probe; do
    install -D -m 755 "$program" "$work/payload/files$program"
done
cp scripts/vm/run.sh "$work/payload/"
{
    echo "native=$native"
    echo "oci=$oci"
    echo "sandyard=$target/release/sandyard"
    echo "sets='$sets'"
    echo "only='$only'"
} >"$work/payload/names"
disk "$work/payload.ext4" payload "$work/payload"

drive() {
    echo "-drive id=$1,file=$2,format=raw,if=none,$3 -device virtio-blk-device,drive=$1"
}
# Without a known clock rate a boot may hang on a busy host, and so may the check of the timer.
khz=$(awk '/^cpu MHz/ { printf "%d", $4 * 1000; exit }' /proc/cpuinfo)
code=0
# shellcheck disable=SC2046
timeout "$patience_s" qemu-system-x86_64 -machine microvm,accel=tcg -cpu max -smp 1 -m "$memory_mib" \
    -nodefaults -no-user-config -nographic -no-reboot -serial stdio \
    -kernel "$system/kernel" -initrd "$system/initrd" \
    -append "console=ttyS0 quiet root=LABEL=system rw init=/sbin/test-machine reboot=t panic=-1 no_timer_check tsc_early_khz=$khz" \
    $(drive system "$system/disk.ext4" snapshot=on) $(drive images "$images" readonly=on) \
    $(drive payload "$work/payload.ext4" readonly=on) </dev/null | tee "$work/console" || code=$?

passed=$(grep -c '^RESULT .* passed' "$work/console" || true)
failed=$(grep -c '^RESULT .* failed' "$work/console" || true)
if [ "$code" != 0 ] || ! grep -q '^RESULT machine end passed' "$work/console"; then
    echo "error: the test machine did not come to its end (code $code)" >&2
    failed=$((failed + 1))
fi
echo "virtual machine: $passed passed, $failed failed"
[ "$failed" = 0 ]
