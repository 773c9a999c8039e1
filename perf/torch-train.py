#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One rank of a training run in PyTorch that weir-compare-torch puts beside weir-gpt's: the same model, from the parameters that
weir-gpt exported, on the same sequences in the same order, with DistributedDataParallel over Gloo. Rank 0 writes JSON lines."""
import argparse
import ctypes
import json
import math
import os
import re
import struct
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

MASK = (1 << 64) - 1


def mix(x):
    """The permutation of 64-bit numbers that weir-gpt draws its random numbers from (splitmix64's)."""
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & MASK
    x = (x ^ x >> 27) * 0x94d049bb133111eb & MASK
    return x ^ x >> 31


def key_of(a, b):
    return mix(mix(a) ^ b)


def permute(key, n, i):
    """Place i of a permutation of 0 .. n - 1: a Feistel network of four rounds, walked until it comes below n."""
    half = 1
    while 1 << 2 * half < n:
        half += 1
    while True:
        left, right = i >> half, i & (1 << half) - 1
        for r in range(4):
            left, right = right, left ^ key_of(key + r & MASK, right) & (1 << half) - 1
        i = left << half | right
        if i < n:
            return i


class Data:
    """The training sequences of one file of two bytes a token, in weir-gpt's order, without a part for validation."""

    def __init__(self, path, context, seed):
        with open(path, "rb") as f:
            raw = f.read()
        self.tokens = torch.tensor(struct.unpack(f"<{len(raw) // 2}H", raw))
        self.context, self.seed = context, seed
        self.sequences = (len(self.tokens) - 1) // context

    def batch(self, number, n):
        """Sequences number .. number + n - 1, and for each token the one after it."""
        rows = []
        for k in range(number, number + n):
            key = key_of(self.seed, k // self.sequences)
            i = permute(key, self.sequences, k % self.sequences)
            first = i * self.context + key_of(key, i) % self.context
            first = min(first, len(self.tokens) - self.context - 1)
            rows.append(self.tokens[first:first + self.context + 1])
        rows = torch.stack(rows)
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def read_model(path):
    """The tensors of a safetensors file of fp32."""
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        data = bytearray(f.read())
    return {name: torch.frombuffer(data, dtype=torch.float32, offset=about["data_offsets"][0],
                                   count=math.prod(about["shape"])).reshape(about["shape"]).clone()
            for name, about in header.items() if name != "__metadata__"}


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.fc, self.proj = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (y.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for y in self.qkv(self.ln_1(x)).split(width, dim=2))
        shares = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(width // self.heads) + mask, dim=-1)
        x = x + self.out((shares @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Model(torch.nn.Module):
    """GPT-2's architecture; the last matrix is the embedding's."""

    def __init__(self, tensors, heads):
        super().__init__()
        vocabulary, width = tensors["wte.weight"].shape
        context = tensors["wpe.weight"].shape[0]
        layers = sum(name.endswith(".ln_1.bias") for name in tensors)
        self.wte, self.wpe = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(context, width)
        self.h = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = torch.nn.LayerNorm(width)
        self.register_buffer("mask", torch.full((context, context), -math.inf).triu(1))
        self.load(tensors)

    def load(self, tensors):
        """GPT-2's files have a row for each input, PyTorch's linear layers one for each output."""
        names = {"qkv": "attn.c_attn", "out": "attn.c_proj", "fc": "mlp.c_fc", "proj": "mlp.c_proj"}
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                for ours, theirs in names.items():
                    name = name.replace(f".{ours}.", f".{theirs}.")
                value = tensors[name]
                turned = value.dim() == 2 and name.startswith("h.")
                parameter.copy_(value.t() if turned else value)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.h:
            x = block(x, self.mask)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[2]), targets.view(-1))


def kib(path, name):
    with open(path, encoding="ascii") as f:
        return int(re.search(rf"^{name}:\s+(\d+)", f.read(), re.M)[1]) * 1024


def memory(most):
    """Bytes at present, or the most since it was forgotten. What n processes share counts as one n-th."""
    more = kib("/proc/self/status", "VmHWM") - kib("/proc/self/smaps_rollup", "Rss") if most else 0
    return kib("/proc/self/smaps_rollup", "Pss") + more


def blas_core():
    """The core that the OpenBLAS in this process has chosen; None: it has another library."""
    with open("/proc/self/maps", encoding="utf-8") as f:
        for path in sorted(set(re.findall(r"\s(/\S*blas\S*)$", f.read(), re.M))):
            library = ctypes.CDLL(path)
            if hasattr(library, "openblas_get_corename"):
                library.openblas_get_corename.restype = ctypes.c_char_p
                return library.openblas_get_corename().decode()
    return None


def make_optimizer(model, o):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": o.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    settings = {"lr": o.lr, "betas": (0.9, o.beta2), "eps": 1e-8, "foreach": True}
    if o.optimizer == "zero":
        return ZeroRedundancyOptimizer(groups, torch.optim.AdamW, **settings)
    return torch.optim.AdamW(groups, **settings)


def train(o):
    def say(**about):
        if o.rank == 0:
            print(json.dumps(about), flush=True)

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{o.meeting}", rank=o.rank, world_size=o.ranks)
    dist.barrier()
    before = memory(False)
    data = Data(o.data, o.context, o.seed)
    model = DistributedDataParallel(Model(read_model(o.model), o.heads), broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = make_optimizer(model, o)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
        f.write("5\n")  # the most is forgotten: reading the model took more for a moment
    mine, seconds, processor = [], [], []
    share = o.batch // o.ranks
    for step in range(o.steps):
        begin, used = time.perf_counter(), time.process_time()
        tokens, targets = data.batch(step * o.batch + o.rank * share, share)
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        mine.append(loss.detach())
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - used)
    growth = torch.tensor(memory(True) - before)
    dist.all_reduce(growth, dist.ReduceOp.MAX)
    losses = torch.stack(mine)
    dist.all_reduce(losses)
    say(event="begin", core=blas_core(), torch=torch.__version__, parameters=sum(p.numel() for p in model.parameters()))
    for step in range(o.steps):
        say(event="step", step=step + 1, loss=losses[step].item() / o.ranks, tokens_per_s=o.batch * o.context / seconds[step],
            processor_s=processor[step])
    say(event="memory", start=before, growth=growth.item())
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--optimizer", choices=["adamw", "zero"], required=True)
    for name in ["model", "data", "meeting"]:
        parser.add_argument(f"--{name}", required=True)
    for name in ["rank", "ranks", "batch", "context", "heads", "steps", "seed"]:
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ["lr", "beta2", "weight-decay"]:
        parser.add_argument(f"--{name}", type=float, required=True)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
