#!/bin/bash
# Builds the Dockerfile's base flavour on a Debian made by mmdebstrap, because no registry is needed then, and compares the tree
# with the one that `sandyard image build` made. Minutes; part of `make test-all`.
#   dockerfile-test.sh
# Uses the engine that DOCKER_HOST names, or starts one of its own below a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${SANDYARD_CACHE:-/var/cache/sandyard}

skip() {
    echo "skipped: $1"
    exit 0
}
[ "$(id -u)" = 0 ] || skip "a private engine and mmdebstrap need root"
native=$(find "$cache/images" -mindepth 2 -maxdepth 2 -name manifest.json -exec grep -l '"flavour": *"base"' {} + 2>/dev/null | xargs -r ls -t | head -1)
[ -n "$native" ] || skip "needs the base image: sandyard image build --flavour base"
native=$(dirname "$native")/root
command -v docker dockerd mmdebstrap >/dev/null || skip "needs docker.io and mmdebstrap"

work=$(mktemp -d)
engine=
cleanup() {
    if [ -n "$engine" ]; then
        kill "$engine" 2>/dev/null || true
        wait "$engine" 2>/dev/null || true
        # It leaves the namespace of containers that share the host's network mounted.
        umount "$work/exec/netns/default" 2>/dev/null || true
    fi
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
if [ -z "${DOCKER_HOST:-}" ]; then
    export DOCKER_HOST=unix://$work/docker.sock
    dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" --host "$DOCKER_HOST" \
        --bridge=none --iptables=false --ip6tables=false >"$work/log" 2>&1 &
    engine=$!
    for _ in $(seq 100); do
        docker version >/dev/null 2>&1 && break
        kill -0 "$engine" 2>/dev/null || skip "dockerd does not start here: $(tail -1 "$work/log")"
        sleep 0.2
    done
fi

# The recipe, and what this host's builds need to reach the network.
cp -r images/agent "$work/context"
inputs=$work/context/inputs
mkdir -p "$inputs/config/user" "$inputs/config/system/pip" "$inputs/sources"
cp /etc/ssl/certs/ca-certificates.crt "$inputs/ca-bundle.crt"
cp /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list "$inputs/sources/" 2>/dev/null || true
{
    apt-config dump | grep -E '^Acquire::(http|https|Retries|ForceIPv4)' | grep -v '""' || true
    echo 'Dir::Etc::SourceList "/dev/null";'
    echo 'Dir::Etc::SourceParts "/run/inputs/sources";'
    echo 'Acquire::https::CaInfo "/run/inputs/ca-bundle.crt";'
} >"$inputs/apt.conf"
cp /etc/pip.conf "$inputs/config/system/pip/pip.conf" 2>/dev/null || true
cp ~/.npmrc "$inputs/config/user/npmrc" 2>/dev/null || : >"$inputs/config/user/npmrc"
: >"$inputs/config/system/npmrc"

echo "making a Debian to build on" >&2
mirror=
for sources in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    [ ! -s "$sources" ] || mirror=$sources
done
# As slim as Debian's own image of that name.
mmdebstrap --quiet --mode=root --variant=minbase --include=ca-certificates \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    bookworm - ${mirror:+"$mirror"} | docker import - sandyard-test/debian:12 >/dev/null
DOCKER_BUILDKIT=0 docker build --quiet --network host --build-arg BASE=sandyard-test/debian:12 \
    --tag sandyard-test/base "$work/context" >/dev/null

container=$(docker create sandyard-test/base)
docker export "$container" >"$work/image.tar"
docker rm "$container" >/dev/null
docker rmi --force sandyard-test/base sandyard-test/debian:12 >/dev/null
docker image prune --force >/dev/null

packages_of() {
    awk '/^Package: / { name = $2 } /^Status: install ok installed/ { print name }' "$1" | LC_ALL=C sort
}
export LC_ALL=C
(cd "$native" && find . -mindepth 1 -printf '%P\n') | sort >"$work/native"
tar --quoting-style=literal -tf "$work/image.tar" | sed 's#/$##' | sort >"$work/docker"
mkdir "$work/tree"
tar -xf "$work/image.tar" -C "$work/tree" var/lib/dpkg
packages_of "$native/var/lib/dpkg/status" >"$work/native-packages"
packages_of "$work/tree/var/lib/dpkg/status" >"$work/docker-packages"

# Everything that the native tree has must be there. Beyond it there may be: what packages of the larger starting point brought, and
# what an engine puts into every container.
missing=$(comm -23 "$work/native" "$work/docker")
for package in $(comm -13 "$work/native-packages" "$work/docker-packages"); do
    cat "$work/tree/var/lib/dpkg/info/$package".list "$work/tree/var/lib/dpkg/info/$package":*.list 2>/dev/null || true
    find "$work/tree/var/lib/dpkg/info" \( -name "$package.*" -o -name "$package:*" \) -printf '/var/lib/dpkg/info/%f\n'
done | sed -e 's#^/##' -e 's#^\(bin\|sbin\|lib\|lib64\)/#usr/\1/#' | sort -u >"$work/brought"
extra=$(comm -13 "$work/native" "$work/docker" | comm -23 - "$work/brought" |
    grep -vE '^(\.dockerenv$|dev/|etc/mtab$|etc/dpkg/dpkg.cfg.d/99mmdebstrap$|etc/systemd/system/|var/lib/systemd/deb-systemd-helper-enabled/)' || true)
lent=$(tar -xOf "$work/image.tar" etc/apt etc/pip.conf usr/local/etc root 2>/dev/null | grep -caF "$(head -2 "$inputs/ca-bundle.crt" | tail -1)" || true)

echo "$(wc -l <"$work/native") entries natively, $(wc -l <"$work/docker") by docker build; packages only there: $(comm -13 "$work/native-packages" "$work/docker-packages" | xargs)"
echo "missing: ${missing:-nothing}"
echo "unexplained: ${extra:-nothing}"
[ -z "$missing" ] && [ -z "$extra" ] && [ "$lent" = 0 ] && ! grep -qE '^run/.' "$work/docker"
