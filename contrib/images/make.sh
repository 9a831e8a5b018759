# SPDX-License-Identifier: Apache-2.0
# make.sh - a release's root file system with packages of contrib/packages. Sourced by contrib/images/run.

LIMIT_ANSWER=30 # seconds for the mirror's first answer
LIMIT_MAKE=1500 # seconds for all: 600 MB to load, 3 GiB to unpack; a short one is a half of that
NEEDS=5         # GiB on the disk, with the packages while they are unpacked

# A short root has what the part images of contrib/check needs. Python's files are compiled where they are used only: all of torch's, numpy's and what
# comes with them take more processor time than to unpack them.
groups=(build run test demo digits v2) hooks=() archs=()
short_take() {
    groups=(build run short demo v2)
    [ -d "$data" ] || groups+=(digits)
    hooks=(--essential-hook='chroot "$1" dpkg-divert --quiet --local --no-rename --divert /usr/bin/py3compile.all --add /usr/bin/py3compile &&
        ln -s true "$1/usr/bin/py3compile"')
}

# A root of another architecture is one of amd64 with a cross compiler, and that architecture's libraries beside.
arch_take() {
    groups=("$arch")
    archs=(--architectures="amd64,$arch")
}

part='' # what is being made

# root_take - have $root complete and hold its lock (descriptor 9), shared: a --refresh waits for those who use it
root_take() {
    exec 9>"$root.lock" || return 1
    while :; do
        if [ "$refresh" = no ]; then
            lock_wait -s || return 1
            [ ! -e "$root.ready" ] || return 0
        fi
        lock_wait -x || return 1
        [ "$refresh" = no ] && [ -e "$root.ready" ] || root_make || return
        refresh=no
    done
}
lock_wait() { # -s|-x
    flock -n "$1" 9 && return 0
    echo "images: waiting for another run of $release" >&2
    local rc
    flock "$1" 9 &
    child=$!
    wait "$child" # bash's wait lets a trap run at once
    rc=$?
    child=''
    return $rc
}

root_make() {
    local log=$root.log free rc began=$SECONDS
    command -v mmdebstrap >/dev/null || { echo "images: mmdebstrap is missing (contrib/install-packages test)" >&2; return 1; }
    free=$(df --output=avail -BG "$cache" | tail -n 1 | tr -dc 0-9)
    [ "$free" -ge $NEEDS ] || { echo "images: $cache has $free GiB free, $release needs $NEEDS" >&2; return 77; }
    part=$root.part
    rm -rf --one-file-system "$part" || return 1
    mirror_answers || { echo "images: $mirror does not answer, so there is no $release" >&2; part=''; return 77; }
    echo "images: making $release in $root" >&2
    # How this machine's apt reaches mirrors holds for the new root, too. A proxy may have a password.
    rm -f "$root.apt"
    (umask 077 && apt-config dump | grep -E '^Acquire::(Check|http|https|Retries)' >"$root.apt")
    setsid timeout --kill-after=10 $LIMIT_MAKE unshare --mount --propagation private mmdebstrap --mode=root --variant=apt --format=directory --include=ca-certificates "${archs[@]}" \
        --aptopt="$root.apt" --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --customize-hook="cp /etc/hosts /etc/resolv.conf \"\$1/etc/\"; mkdir \"\$1/packages\" && cp '$repo'/contrib/*packages \"\$1/packages/\"" \
        "${hooks[@]}" --customize-hook="chroot \"\$1\" /packages/install-packages ${groups[*]} && rm -r \"\$1/packages\"" \
        --skip=cleanup/apt/lists "$release" "$part" "$mirror" </dev/null >"$log" 2>&1 8>&- 9>&- &
    child=$!
    wait "$child"
    rc=$?
    child=''
    rm -f "$root.apt"
    if [ $rc != 0 ]; then
        rm -rf --one-file-system "$part"
        part=''
        if [ $rc = 124 ] || grep -qE 'Failed to fetch|Unable to connect|Temporary failure|Could not (connect|resolve)' "$log"; then
            echo "images: $mirror does not answer, so there is no $release: $(grep -m 1 '^E: ' "$log")" >&2
            return 77
        fi
        if grep -qE 'unmet dependencies|held broken packages|Unable to locate package|no installation candidate' "$log"; then
            echo "images: the packages of $release do not fit together now" >&2
            return 77
        fi
        echo "images: $release cannot be made; the end of $log:" >&2
        tail -n 20 "$log" >&2
        return 1
    fi
    # The old one is good until here.
    rm -f "$root.ready" && rm -rf --one-file-system "$root" && mv "$part" "$root" && part='' && touch "$root.ready" || return 1
    echo "images: made $release: $(du -sm "$root" | cut -f1) MiB, $((SECONDS - began)) s" >&2
}

mirror_answers() { # as apt reaches it, through its proxy
    local rc
    timeout $LIMIT_ANSWER /usr/lib/apt/apt-helper download-file "$mirror/dists/$release/InRelease" "$root.answer" >/dev/null 2>&1
    rc=$?
    rm -f "$root.answer"
    return $rc
}
