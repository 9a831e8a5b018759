# SPDX-License-Identifier: Apache-2.0
"""Sequences in the dictionary, as numbers for Doc2Vec: each k-mer with the k-mers around it.

A line is LETTERS,ID. The letters are padded with 12 X in front and 12 Y behind and cut into k-mers without overlap, in k ways that begin at letter 0 to k - 1. Targets
are the k-mers with `context` k-mers on both sides; a sample has the target, these k-mers, and `noise` random words.
"""
import numpy
import torch

import ddict

LETTERS = "GACTUXY"
BITS = 3  # bits of a letter


class Sequences(torch.utils.data.Dataset):
    """Lines in a dictionary; keys: their keys."""

    def __init__(self, d, keys, k=4, context=3, noise=5):
        self.d, self.keys, self.k, self.context, self.noise = d, keys, k, context, noise
        self.pad = k * context
        self.code = numpy.full(256, 255, dtype=numpy.uint8)
        for i, letter in enumerate(LETTERS):
            self.code[ord(letter)] = i
        self._vocabulary()

    def __len__(self):
        return len(self.keys)

    def _lines(self, keys):
        lines = self.d.get_many(keys)
        for key, line in zip(keys, lines):
            if line is None:
                raise KeyError(key)
            letters, comma, name = (line if isinstance(line, str) else line.decode()).partition(",")
            if not comma or not letters:
                raise ValueError("line %r is no LETTERS,ID: %.60r" % (key, line))
            yield letters, name

    def _kmers(self, letters):
        """The k-mers at all positions, as numbers; [i::k] is the cut that begins at letter i."""
        codes = self.code[numpy.frombuffer(("X" * self.pad + letters + "Y" * self.pad).encode(), dtype=numpy.uint8)]
        if codes.max() == 255:
            raise ValueError("a sequence has other letters than %s: %.60r" % (LETTERS, letters))
        codes = codes.astype(numpy.int64)
        n = len(codes) - self.k + 1
        numbers = numpy.zeros(n, dtype=numpy.int64)
        for i in range(self.k):
            numbers = numbers << BITS | codes[i:i + n]
        return numbers

    def _vocabulary(self):
        """Count the k-mers of all sequences, and number them in the order of their codes."""
        counts = numpy.zeros(1 << BITS * self.k, dtype=numpy.int64)
        letters_seen = set()
        for i in range(0, len(self.keys), 256):
            lines = [letters for letters, _ in self._lines(self.keys[i:i + 256])]
            letters_seen.update(*lines)
            counts += numpy.bincount(numpy.concatenate([self._kmers(letters) for letters in lines]), minlength=len(counts))
        self.letters = "".join(letter for letter in LETTERS if letter in letters_seen)
        words = numpy.flatnonzero(counts)
        self.num_docs, self.num_words = len(self.keys), len(words)
        self.word = numpy.full(len(counts), -1, dtype=numpy.int64)
        self.word[words] = numpy.arange(len(words))
        weight = counts[words].astype(float) ** 0.75
        self.noise_below = numpy.cumsum(weight / weight.sum())

    def _sample(self, doc, letters):
        targets, contexts = [], []
        c = self.context
        words = self.word[self._kmers(letters)]
        for i in range(self.k):
            around = numpy.lib.stride_tricks.sliding_window_view(words[i::self.k], 2 * c + 1)
            targets.append(around[:, c])
            contexts.append(numpy.delete(around, c, axis=1))
        target = numpy.concatenate(targets)
        noise = numpy.searchsorted(self.noise_below, numpy.random.random((len(target), self.noise)), side="right").clip(max=self.num_words - 1)
        return (torch.full((len(target),), doc), torch.from_numpy(target), torch.from_numpy(numpy.concatenate(contexts)),
                torch.from_numpy(numpy.concatenate([target[:, None], noise], axis=1)))

    def __getitem__(self, i):
        return self.__getitems__([i])[0]

    def __getitems__(self, indices):
        """Fetch a batch in one request."""
        return [self._sample(i, letters) for i, (letters, _) in zip(indices, self._lines([self.keys[i] for i in indices]))]


def collate(samples):
    """Sequences may differ in length, so their k-mers are concatenated."""
    return len(samples), [torch.cat(part) for part in zip(*samples)]


def load(d, path, prefix="seq/"):
    """Put the file's lines into the dictionary; returns their keys."""
    return ddict.load(path, prefix=prefix, kind="lines", d=d).keys
