# SPDX-License-Identifier: Apache-2.0
# containers.sh - what the tests with containers share: an image for charliecloud, and bubblewrap's sandbox. Sourced after lib.sh.
#
# Charliecloud's image is a folder. It is made of this machine's own programs, as hard links where they can be made, and a copy of the installation: so everything that runs in
# a container is in its image, and nothing but /dev, /proc and /sys comes from outside. Where they cannot be made, /usr is bound in; also in user-mode Linux, where
# each link is a copy, and each file that was read stays open on the host: for all of /usr that is more than it may open, and nothing starts any more.
image=/var/lib/ddict-devcluster/$DEVCLUSTER_ID/image
image_usr=()
prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")

image_make() { # FILES... - files of the test that are wanted in the image's /tests
    local name
    rm -rf "$image"
    mkdir -p "$image"/{dev,proc,sys,tmp,run,home,root,mnt/0,mnt/1,etc,tests,usr,var/tmp} "$image${prefix%/*}" || return 1
    touch "$image"/etc/{passwd,group,hosts,resolv.conf}
    cp -a /etc/ld.so.c* /etc/nsswitch.conf "$image/etc/" && cp -a "$prefix" "$image$prefix" && cp "$@" "$image/tests/" || return 1
    for name in bin sbin lib lib64; do [ -L /$name ] && ln -s usr/$name "$image/$name"; done
    [ ! -e /etc/alternatives ] || cp -a /etc/alternatives "$image/etc/"
    if [ "$slow" = 1 ] && cp -al /usr/bin /usr/lib "$image/usr/" 2>/dev/null; then
        [ ! -e /usr/lib64 ] || cp -al /usr/lib64 "$image/usr/"
    else
        rm -rf "$image/usr" && mkdir "$image/usr" && image_usr=(-b /usr)
    fi
}
image_remove() { rm -rf "$image"; }

# charlie WORDS... -- CMD...: the words of `ch-run` with this image
# shellcheck disable=SC2034
charlie=(ch-run --private-tmp)
# A root of its own that shows this one, a private /tmp and /dev/shm, other users and processes
# shellcheck disable=SC2034
bubble=(bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /dev/shm --unshare-user --unshare-pid --unshare-ipc)

# containers_may WORD... - the program is there and the user may have namespaces; else one line says why not
containers_may() {
    local why
    command -v "$1" >/dev/null || { echo "$1 is not installed"; return 1; }
    why=$(sub srun -N1 -n1 "$@" true 2>&1) && return 0
    echo "$1 cannot make its namespaces here: $(head -n 1 <<<"$why")"
    return 1
}
