# SPDX-License-Identifier: Apache-2.0
# build.sh - a clean copy of this repository and builds of it in a temporary folder. Sourced by contrib/check and demo.

# source_copy REPO DIR - copy the files of REPO without build products; nothing is ever written into REPO.
source_copy() {
    mkdir -p "$2" || return 1
    if git -c safe.directory='*' -C "$1" rev-parse --git-dir >/dev/null 2>&1; then
        git -c safe.directory='*' -C "$1" ls-files -z -co --exclude-standard |
            (cd "$1" && xargs -0 -r ls -d 2>/dev/null) | tar -C "$1" -cf - -T - | tar -C "$2" -xf -
    else
        tar -C "$1" --exclude=./.git --exclude='*.o' --exclude='*.lo' --exclude='*.la' --exclude=.libs \
            --exclude=./config.status -cf - . | tar -C "$2" -xf -
    fi
    [ "$(id -u)" != 0 ] || chown -R 0:0 "$2" || return 1
    chmod -R u+rwX,go+rX "$2"
}

# source_build SRC BUILD PREFIX CONFIGURE-OPTIONS... - configure and make $BUILD_GOALS (default: all); autoreconf once
source_build() {
    local src=$1 build=$2 prefix=$3
    shift 3
    [ -x "$src/configure" ] || (cd "$src" && autoreconf -fi) || return 1
    mkdir -p "$build" && cd "$build" && "$src/configure" --prefix="$prefix" "$@" && make -j"$(($(nproc) + 1))" ${BUILD_GOALS-all}
}
