# Sourced first by every step. A step runs as root inside the root being made, with
#   RECIPE    this recipe, read-only
#   FLAVOUR   the flavour being made
#   WITH      extra Debian packages, separated by spaces (may be empty)
#   INPUTS    what the host lends for the build (optional, read-only, never copied):
#               ca-bundle.crt   certificates to trust
#               apt.conf        sources, proxies and keyrings for apt
#               config/         settings of pip and npm
#   PROGRESS  set when the builder reads apt's progress lines on stdout
# Proxies come in the usual variables. Nothing of this may stay in the image.
set -euo pipefail
umask 022

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
export npm_config_cache=/tmp/build-npm npm_config_update_notifier=false
export HOME=/tmp/build-home
mkdir -p "$HOME"

INPUTS=${INPUTS:-/nonexistent}
WITH=${WITH:-}
FLAVOUR_DIR=$RECIPE/flavours/$FLAVOUR

if [ -f "$INPUTS/apt.conf" ]; then
    export APT_CONFIG=$INPUTS/apt.conf
fi
if [ -d "$INPUTS/config" ]; then
    export XDG_CONFIG_HOME=$INPUTS/config/user XDG_CONFIG_DIRS=$INPUTS/config/system
    export npm_config_userconfig=$INPUTS/config/user/npmrc npm_config_globalconfig=$INPUTS/config/system/npmrc
fi
if [ -f "$INPUTS/ca-bundle.crt" ]; then
    export SSL_CERT_FILE=$INPUTS/ca-bundle.crt CURL_CA_BUNDLE=$INPUTS/ca-bundle.crt
    export PIP_CERT=$INPUTS/ca-bundle.crt REQUESTS_CA_BUNDLE=$INPUTS/ca-bundle.crt
    export NODE_EXTRA_CA_CERTS=$INPUTS/ca-bundle.crt npm_config_cafile=$INPUTS/ca-bundle.crt
fi

# The lines of a list file without comments.
entries() {
    sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1"
}
