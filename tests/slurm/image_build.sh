#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# image_build.sh TARBALL DIR - the image of contrib/containers/Dockerfile as a folder DIR, built by charliecloud from the sources in TARBALL. Where the recipe takes
# PyTorch's image, which is on a registry, this takes one with the same programs made of Debian's packages; all else is done as the recipe says.
set -eu
recipe=$(dirname "$(readlink -f "$0")")/../../contrib/containers/Dockerfile
tarball=$(readlink -f "$1") dir=$(readlink -f "$2")
work=$(mktemp -d "$dir.part.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
export USER=${USER-root} CH_IMAGE_STORAGE=$work/store PATH=/usr/bin:$PATH # ch-image is of /usr/bin/python3
. /etc/os-release
mmdebstrap --quiet --mode=root --variant=apt --include=python3-torch,python3-numpy,python3-pip,python3-dev,python3-setuptools,python3-wheel,python-is-python3 \
    --customize-hook='rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED' "$VERSION_CODENAME" "$work/base.tar"
ch-image import "$work/base.tar" base
rm "$work/base.tar"
mkdir "$work/context"
cp "$tarball" "$work/context/slurm-ddict.tar.xz"
sed 's/^FROM .*/FROM base/' "$recipe" >"$work/context/Dockerfile"
ch-image build --force -t train "$work/context"
ch-convert train "$dir"
