#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Doc2Vec (distributed memory) over DNA and RNA sequences in the job's dictionary, with times.

  srun -N2 --ntasks-per-node=1 --ddict-managers=4 --ddict-mem=1G python3 doc2vec.py --file-name seq0.125gb.txt

Rank 0 trains; the other tasks only bring their nodes into the dictionary. Where no dictionary is there, as in a job without srun, the program makes one as Dragon's does:

  python3 doc2vec.py --file-name seq0.125gb.txt --dragon-dict-managers 4 --dragon-dict-mem 1000000000

 Every sequence of an epoch is read and trained, unless --max-batches limits the batches.
An error ends the program.
"""
import argparse
import dataclasses
import itertools
import resource
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import ddict
from ddict import runtime
import generate
import sequences

SIZE, RATE = 24, 0.1  # length of vectors; learning rate
SIMULATED = "sim_7.txt"


@dataclasses.dataclass
class DDictManagerStats:
    """A manager's statistics under the names and in the order of Dragon's."""
    manager_id: int
    hostname: str
    total_bytes: int
    total_used_bytes: int
    num_keys: int
    free_blocks: dict

    @classmethod
    def of(cls, stats):
        return cls(**{field.name: stats[field.name] for field in dataclasses.fields(cls)})


class DM(nn.Module):
    """A sequence's vector and those of the surrounding k-mers predict the k-mer between them."""

    def __init__(self, docs, words):
        super().__init__()
        self.docs = nn.Embedding(docs, SIZE, sparse=True)  # sparse gradients, because a batch has few of the sequences
        self.words = nn.Parameter(torch.randn(words, SIZE))
        self.out = nn.Parameter(torch.zeros(words, SIZE))

    def forward(self, doc, context, candidates):
        x = self.docs(doc) + F.embedding_bag(context, self.words, mode="sum")
        return torch.bmm(self.out[candidates], x.unsqueeze(2)).squeeze(2)


def loss_of(scores):
    """Negative sampling: the first candidate is the k-mer itself, the others are noise."""
    return -(F.logsigmoid(scores[:, 0]) + F.logsigmoid(-scores[:, 1:]).sum(1) / (scores.shape[1] - 1)).mean()


def train(data, args, device):
    loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size, shuffle=args.shuffle, pin_memory=args.pin_memory, num_workers=args.num_workers,
                                         collate_fn=sequences.collate)
    model = DM(data.num_docs, data.num_words).to(device)
    optimizers = [torch.optim.SparseAdam(model.docs.parameters(), lr=RATE), torch.optim.Adam([model.words, model.out], lr=RATE)]
    for epoch in range(args.num_epochs):
        print(epoch, flush=True)
        began, seen, waited, total = time.perf_counter(), 0, 0.0, 0.0
        n, asked = 0, began
        for count, (doc, _, context, candidates) in itertools.islice(loader, args.max_batches):
            waited += time.perf_counter() - asked
            loss = loss_of(model(doc.to(device), context.to(device), candidates.to(device)))
            for o in optimizers:
                o.zero_grad(set_to_none=True)
            loss.backward()
            for o in optimizers:
                o.step()
            seen += count
            n += 1
            total += loss.item()
            asked = time.perf_counter()
        took = time.perf_counter() - began
        print("Time taken for epoch:")
        print(took)
        print("%d of %d sequences read and trained, %.1f a second; waited for data %.2f s; loss %.4f" % (seen, len(data), seen / took, waited, total / max(n, 1)), flush=True)


def read_only(data, args):
    """The same loader without a model: the cost of the data alone."""
    loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size, shuffle=args.shuffle, num_workers=args.num_workers, collate_fn=sequences.collate)
    began, seen = time.perf_counter(), 0
    for count, _ in itertools.islice(loader, args.max_batches):
        seen += count
    took = time.perf_counter() - began
    print("Read alone: %d sequences in %.2f s, %.1f a second" % (seen, took, seen / took), flush=True)


def dictionary(args):
    """That of srun, or one that this program makes, which ends with it."""
    try:
        return ddict.attach()
    except ddict.NoDictError:
        return ddict.up(managers=args.dragon_dict_managers or 1, mem=args.dragon_dict_mem or "1G")


def flag(text):
    if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
        raise argparse.ArgumentTypeError("want True or False")
    return text.lower() in ("true", "1", "yes")


def count(text):
    n = int(text)
    if n < 1:
        raise argparse.ArgumentTypeError("want 1 or more")
    return n


def arguments():
    p = argparse.ArgumentParser(description="DNA/RNA Doc2Vec over the job's dictionary")
    p.add_argument("--file-name", metavar="FN", help="The name of the file to get the sequences from (default: None: %s is written here and taken)" % SIMULATED)
    p.add_argument("--num-epochs", type=int, default=1, metavar="NE", help="epochs to train (default: 1)")
    p.add_argument("--batch-size", type=int, default=4, metavar="BS", help="The batch size to use for dataloader (default: 4)")
    p.add_argument("--shuffle", type=flag, nargs="?", const=True, default=False, help="Should the sequences be shuffled before batching and serving (default: False)")
    p.add_argument("--pin-memory", type=flag, nargs="?", const=True, default=False, help="Should the outputs from dataloader be pinned before transfering to GPU (default: False)")
    p.add_argument("--num-workers", type=int, default=2, metavar="NW", help="The number of workers to use for dataloader (default: 2)")
    p.add_argument("--use-gpu", type=flag, nargs="?", const=True, default=False, help="Should GPU be used (default: False)")
    p.add_argument("--seq-len", type=count, default=40, metavar="SL", help="String length for sequences, without --file-name (default: 40)")
    p.add_argument("--input-size", type=count, default=1000, metavar="IS", help="Input size of the file in strings, without --file-name (default: 1000)")
    p.add_argument("--dragon-dict-managers", type=count, metavar="N", help="Dragon's: here it is srun --ddict-managers=, of the whole dictionary")
    p.add_argument("--dragon-dict-mem", type=count, metavar="BYTES", help="Dragon's: here it is srun --ddict-mem=")
    p.add_argument("--max-batches", type=int, metavar="N", help="so many batches of an epoch (default: all)")
    p.add_argument("--read-only", action="store_true", help="read an epoch without training, too")
    return p.parse_args()


def main():
    args = arguments()
    if runtime.rank != 0:
        return
    torch.manual_seed(1)
    print("Started")
    print(args)
    if args.file_name is None:
        generate.simulate(SIMULATED, args.input_size, args.seq_len)
    began = time.perf_counter()
    d = dictionary(args)
    keys = sequences.load(d, args.file_name or SIMULATED)
    print("DDict_Timer", time.perf_counter() - began)
    print([DDictManagerStats.of(s) for s in d.stats])
    began = time.perf_counter()
    print("Building Vocabulary", flush=True)
    data = sequences.Sequences(d, keys)
    print(data.letters)
    print("Vocabulary of %d words in %.2f s" % (data.num_words, time.perf_counter() - began))
    device = torch.device("cuda" if args.use_gpu else "cpu")
    if args.use_gpu and not torch.cuda.is_available():
        sys.exit("doc2vec: --use-gpu, and torch sees no GPU")
    real, used = time.time(), resource.getrusage(resource.RUSAGE_SELF)
    for value in (args.num_workers, torch.cuda.is_available(), int(args.use_gpu), data.num_docs):  # a line each, as Dragon's program prints them
        print(value)
    sys.stdout.flush()
    if args.read_only:
        read_only(data, args)
    train(data, args, device)
    now = resource.getrusage(resource.RUSAGE_SELF)
    print("Real time:", time.time() - real)
    print("User time:", now.ru_utime - used.ru_utime)
    print("System time:", now.ru_stime - used.ru_stime)


if __name__ == "__main__":
    main()
