#!/bin/bash
# Installs the packages that this machine lacks for building, running, testing or measuring.
# Takes no time when nothing is missing.
#   setup.sh build|run|test|bench|vm
#   setup.sh modules browser|vite|web|clients|model     prints the folder of the test modules
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-build}

# Test modules are stored outside of the checkout, in a folder named by the hash of their lock files.
modules() {
    local source=tests/browser
    case $1 in
        vite) source=tests/browser/vite ;;
        web) source=web ;;
        clients) source=tests/clients ;;
        model) source=tests/model ;;
    esac
    local key
    key=$({ cat "$source"/package*.json "$source"/requirements.txt 2>/dev/null || true; } | sha256sum | cut -c1-16)
    echo "${SANDYARD_CACHE:-/var/cache/sandyard}/tests/$1-$key"
}
if [ "$purpose" = modules ]; then
    modules "$2"
    exit
fi

# Programs of the image builder and the native driver first, then those of tests and measurements.
# musl-tools compiles the grammars of the reader, which is static like the guest.
packages=(gcc libc6-dev musl-tools)
# npm builds the pages. Node from another source includes npm and conflicts with Debian's package.
command -v npm >/dev/null || packages+=(nodejs npm)
case $purpose in
    # graphviz draws the pictures of `sandyard explain`.
    run | test | bench) packages+=(mmdebstrap e2fsprogs uidmap util-linux ca-certificates curl graphviz) ;;
esac
case $purpose in
    test) packages+=(bubblewrap runc crun docker.io podman chromium python3 python3-venv qemu-system-x86 unzip postgresql) ;;
    bench) packages+=(bubblewrap runc wrk python3) ;;
    vm) packages+=(qemu-system-x86 mmdebstrap e2fsprogs) ;;
esac

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
    echo "installing ${missing[*]}" >&2
    if ! command -v apt-get >/dev/null; then
        echo "error: install these packages by hand: ${missing[*]}" >&2
        exit 1
    fi
    root=()
    [ "$(id -u)" = 0 ] || root=(sudo)
    export DEBIAN_FRONTEND=noninteractive
    "${root[@]}" apt-get update --quiet=2
    "${root[@]}" apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}" >/dev/null
fi

if ! command -v cargo >/dev/null; then
    echo "error: cargo is missing; install Rust 1.95 or newer with rustup" >&2
    exit 1
fi
target=$(uname -m)-unknown-linux-musl
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
    echo "adding the Rust target $target, for the program inside the sandbox" >&2
    rustup target add "$target"
fi
if [ "$purpose" = test ] && ! cargo nextest --version >/dev/null 2>&1; then
    echo "installing cargo-nextest, which takes some minutes" >&2
    # With a target directory of its own, so that it does not disturb the build of this checkout.
    env -u CARGO_TARGET_DIR cargo install --quiet --locked cargo-nextest
fi

# Each folder is prepared aside and then renamed, so that an existing folder is complete.
if [ "$purpose" = test ]; then
    for name in browser vite web clients model; do
        folder=$(modules "$name")
        [ ! -d "$folder" ] || continue
        echo "installing the $name modules of the tests" >&2
        rm -rf "$folder.new"
        mkdir -p "$folder.new"
        case $name in
            clients)
                python3 -m venv "$folder.new"
                "$folder.new/bin/pip" install --quiet --requirement tests/clients/requirements.txt
                # A virtual environment contains its own path.
                sed -i "s#$folder.new#$folder#g" "$folder.new"/bin/pip* "$folder.new/pyvenv.cfg"
                ;;
            model)
                python3 -m venv "$folder.new"
                # Wheels exist for some machines only; elsewhere the tests report that they are skipped.
                if ! "$folder.new/bin/pip" install --quiet --no-deps --only-binary :all: --requirement tests/model/requirements.txt; then
                    rm -rf "$folder.new"
                    continue
                fi
                sed -i "s#$folder.new#$folder#g" "$folder.new"/bin/pip* "$folder.new/pyvenv.cfg"
                ;;
            browser) cp tests/browser/package*.json "$folder.new" && (cd "$folder.new" && npm install --silent --ignore-scripts) ;;
            web) cp web/package*.json web/.npmrc "$folder.new" && (cd "$folder.new" && npm ci --silent) ;;
            vite) cp tests/browser/vite/package*.json "$folder.new" && (cd "$folder.new" && npm install --silent --ignore-scripts) ;;
        esac
        mv "$folder.new" "$folder"
    done
fi
