#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What weir-compare-torch found: reads its results, prints the table, and writes a summary. Exit status 1 when losses differ.
usage: torch-table.py RESULTS SUMMARY"""
import collections
import json
import statistics
import sys

NEAR = 1e-3    # largest relative difference of two losses of the same step; fp32 in another order gives about 1e-6, and it grows
NEAR_BF16 = 3e-2
WARM = 2       # first steps of a launch, whose time is not counted


class Variant:
    """The launches of a program with one batch."""

    def __init__(self):
        self.rates, self.processor, self.growth, self.losses, self.core = [], [], [], [], None

    def add(self, lines):
        steps = [line for line in lines if line.get("event") == "step"]
        memory = [line for line in lines if line.get("event") == "memory"]
        if not steps or not memory:
            return
        self.core = next((line["core"] for line in lines if line.get("event") == "begin"), None)
        self.losses = [line["loss"] for line in steps]
        self.growth.append(memory[-1]["growth"])
        timed = steps[min(WARM, len(steps) - 1):]
        if "default-allocator" not in lines[0]["variant"]:
            self.rates.append(statistics.median(line["tokens_per_s"] for line in timed))
            self.processor.append(statistics.median(line["processor_s"] for line in timed))


def read(path):
    launches = collections.defaultdict(list)
    with open(path, encoding="utf-8") as f:
        for line in map(json.loads, f):
            launches[line["case"], line["variant"], line["launch"]].append(line)
    batches = {}
    for (batch, variant, _), lines in launches.items():
        name = variant.removesuffix(",default-allocator")
        batches.setdefault(batch, {}).setdefault(name, Variant()).add(lines)
    return batches


def furthest(a, b):
    return max((abs(x - y) / max(abs(x), abs(y)) for x, y in zip(a, b)), default=0.0)


def peer_of(name, peers):
    """What a variant of weir is compared with: what divides the optimizer's states when it does, too."""
    wanted = "torch:ddp" if name.endswith("zero-0") else "torch:ddp-zero"
    return peers.get(wanted) or next(iter(peers.values()), None)


def show_batch(batch, variants):
    peers = {name: v for name, v in variants.items() if name.startswith("torch") and v.rates}
    if not peers:
        return [], True
    fastest = max(max(v.rates) for v in peers.values())
    reference = next(iter(peers.values())).losses
    print(f"\n{batch}")
    print(f"{'':16} {'tokens/s':>9} {'median':>9} {'ratio':>6} {'to best':>8} {'cpu ms':>8} {'ratio':>6} {'growth MiB':>11} {'ratio':>6} "
          f"{'loss differs':>13}  core")
    summary, good = [], True
    for name, v in variants.items():
        if not v.rates:
            good = False
            continue
        best, peer, growth, used = max(v.rates), peer_of(name, peers), min(v.growth), min(v.processor)
        row = {"case": batch, "variant": name, "core": v.core, "tokens_per_s": best, "processor_s": used, "growth": growth,
               "loss": v.losses, "loss_differs": furthest(v.losses, reference)}
        text = f"{name:16} {best:9.0f} {statistics.median(v.rates):9.0f}"
        if name.startswith("weir"):
            row |= {"ratio": best / max(peer.rates), "ratio_best": best / fastest, "processor_ratio": min(peer.processor) / used,
                    "growth_ratio": min(peer.growth) / growth}
            text += (f" {row['ratio']:6.2f} {row['ratio_best']:8.2f} {used * 1e3:8.1f} {row['processor_ratio']:6.2f} {growth / 2**20:11.1f}"
                     f" {row['growth_ratio']:6.2f}")
        else:
            text += f" {'':6} {'':8} {used * 1e3:8.1f} {'':6} {growth / 2**20:11.1f} {'':6}"
        print(f"{text} {row['loss_differs']:13.1e}  {v.core}")
        good &= row["loss_differs"] <= (NEAR_BF16 if name.endswith("bf16") else NEAR)
        summary.append(row)
    return summary, good


def show_losses(batch, variants):
    named = {name: v for name, v in variants.items() if v.losses}
    print(f"\nlosses, {batch}\n{'step':>5}" + "".join(f" {name:>14}" for name in named))
    for step in range(max((len(v.losses) for v in named.values()), default=0)):
        print(f"{step + 1:5}" + "".join(f" {v.losses[step]:14.6f}" if step < len(v.losses) else f" {'-':>14}" for v in named.values()))


def main():
    batches = read(sys.argv[1])
    good = bool(batches)
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        for batch, variants in batches.items():
            summary, same = show_batch(batch, variants)
            good &= same
            for row in summary:
                print(json.dumps(row), file=f)
    for batch, variants in batches.items():
        show_losses(batch, variants)
    if not good:
        print("\nlosses differ, or a variant has no results")
    sys.exit(not good)


if __name__ == "__main__":
    main()
