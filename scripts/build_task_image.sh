#!/usr/bin/env bash
# Builds the Docker image that tasks run in by default, millpond-task:1 (Debian bookworm with Python
# and NumPy), from Debian packages alone: no image registry is asked. Repeating it costs nothing.
#   build_task_image.sh [--force]
# Needs root, debootstrap (installed with apt-get where it is missing) and a Docker engine.
# The Debian mirror is MILLPOND_DEBIAN_MIRROR, else the one apt uses here, else debootstrap's own.
set -euo pipefail

image=millpond-task:1
release=bookworm
packages=python3-minimal,python3-numpy
cache=${MILLPOND_IMAGE_CACHE:-${XDG_CACHE_HOME:-/var/cache}/millpond}
tarball=$cache/$(echo "$image" | tr : -)-$release-$(dpkg --print-architecture).tar.gz

fail() {
    echo "error: $1" >&2
    exit 1
}

apt_mirror() {
    apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk -v release="$release" '$1 == "Debian" && $2 == release { print $3; exit }' || true
}

build_tarball() {
    [ "$(id -u)" -eq 0 ] || fail "debootstrap needs root: run 'sudo scripts/build_task_image.sh'"
    command -v debootstrap >/dev/null || {
        apt-get update -q
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends debootstrap debian-archive-keyring
    }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mirror=${MILLPOND_DEBIAN_MIRROR:-$(apt_mirror)}
    debootstrap --variant=minbase --include="$packages" "$release" "$work/root" \
        ${mirror:+"$mirror"} >"$work/log" 2>&1 || {
        tail -20 "$work/log" >&2
        fail "debootstrap failed"
    }
    rm -rf "$work/root"/var/cache/apt/archives/*.deb "$work/root"/var/lib/apt/lists/* \
        "$work/root"/var/log/* "$work/root"/usr/share/{man,locale}/*
    # What the building machine put in to reach its mirrors must not travel with the image.
    rm -f "$work/root/etc/apt/sources.list" "$work/root/etc/resolv.conf" "$work/root/etc/hostname"
    find "$work/root/etc/apt" -name '*proxy*' -delete
    : >"$work/root/etc/resolv.conf"
    mkdir -p "$cache"
    tar -C "$work/root" --numeric-owner --sort=name -cz . >"$tarball.$$"
    mv "$tarball.$$" "$tarball"
}

docker version >/dev/null 2>&1 || fail "no Docker engine answers: start one, or see 'millpond-worker doctor'"
if [ "${1:-}" = --force ]; then
    rm -f "$tarball"
elif docker image inspect "$image" >/dev/null 2>&1; then
    echo "$image is there"
    exit 0
fi
[ -s "$tarball" ] || build_tarball
docker import --change 'ENV PYTHONDONTWRITEBYTECODE=1' --change 'CMD ["python3"]' "$tarball" "$image" >/dev/null
docker run --rm --network none "$image" python3 -c 'import numpy, sys; print("'"$image"':", sys.version.split()[0], "numpy", numpy.__version__)'
