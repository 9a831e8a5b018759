# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += contrib/devcluster/devcluster contrib/devcluster/conf.sh contrib/devcluster/clean.sh \
  contrib/devcluster/power.sh contrib/arm64 contrib/packages contrib/install-packages contrib/format contrib/layers contrib/build.sh \
  contrib/check contrib/tested contrib/plugin-for contrib/demo contrib/demo-train/train.py contrib/containers/README.md \
  contrib/containers/install-client contrib/containers/train.def contrib/containers/Dockerfile \
  contrib/images/run contrib/images/make.sh contrib/images/enter contrib/images/v2 tests/zz-nothing-left
EXTRA_DIST += contrib/examples/README.md contrib/examples/container/mnist_ddp.py \
  contrib/examples/container/README.md contrib/examples/imagenet/compare.py \
  contrib/examples/dna/dragon_load.py
EXTRA_DIST += contrib/examples/mnist/mnist.py contrib/examples/mnist/README.md \
  contrib/examples/dna/generate.py contrib/examples/dna/sequences.py \
  contrib/examples/dna/doc2vec.py contrib/examples/dna/table.py contrib/examples/dna/README.md \
  contrib/examples/imagenet/make_images.py contrib/examples/imagenet/resnet.py \
  contrib/examples/imagenet/train.py contrib/examples/imagenet/README.md \
  contrib/examples/transfer/transfer.py contrib/examples/transfer/README.md \
  contrib/examples/imagenet/devkit.py contrib/examples/imagenet/run.sbatch contrib/examples/dna/run.sbatch \
  contrib/examples/mnist/run.sbatch contrib/examples/container/run.sbatch contrib/examples/transfer/run.sbatch
EXTRA_DIST += contrib/examples/dragon/README.md contrib/examples/dragon/run.sbatch \
  contrib/examples/dragon/Makefile contrib/examples/dragon/mapping.py \
  contrib/examples/dragon/languages.py contrib/examples/dragon/worker.c \
  contrib/examples/dragon/worker.cpp contrib/examples/dragon/train.py \
  contrib/examples/dragon/checkpoints.py contrib/examples/dragon/best.py \
  contrib/examples/dragon/copies.py
