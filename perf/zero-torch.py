#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-zero-torch: what weir-zero measures, in PyTorch: DistributedDataParallel with AdamW, and with ZeroRedundancyOptimizer.

The same stack of layers, whose forward pass computes for a while and whose backward pass computes twice as long and fills the gradient.
One thread a rank, Gloo, all ranks on this host.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

WIDTH, WARM = 1024, 2
# PyTorch's tensors are mapped anew in each step unless malloc() is told to keep memory; it is told so
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}
SYSTEMS = {"ddp": "DDP + AdamW", "zero": "DDP + ZeroRedundancyOptimizer"}


def number(text):
    """100M, 20K, 3."""
    factor = {"K": 10**3, "M": 10**6, "G": 10**9}.get(text[-1:].upper(), 1)
    return int(text[:-1] if factor > 1 else text) * factor


def arguments():
    parser = argparse.ArgumentParser(prog="weir-zero-torch", description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument("--params", type=number, default=number("100M"), help="parameters of the model (100M)")
    parser.add_argument("--layers", type=int, default=24, help="layers that they are divided among (%(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="measured steps, after two others (%(default)s)")
    parser.add_argument("--micros", type=int, default=1, help="micro-batches a step (%(default)s)")
    parser.add_argument("--compute", type=int, default=0, help="microseconds that a layer computes forward (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--system", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    return parser.parse_args()


def memory(field):
    """VmRSS or VmHWM of this process, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def compute(microseconds):
    end = time.monotonic_ns() + 1000 * microseconds
    while time.monotonic_ns() < end:
        pass


def make_model(torch, o):
    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(weight)
            compute(o.compute)
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            (weight,) = ctx.saved_tensors
            compute(2 * o.compute)
            return gradient, torch.full_like(weight, 1e-3)

    class Stack(torch.nn.Module):
        def __init__(self):
            super().__init__()
            shape = (o.params // o.layers // WIDTH, WIDTH)
            self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.empty(shape).uniform_(-0.05, 0.05)) for _ in range(o.layers))

        def forward(self, x):
            for weight in self.weights:
                x = Layer.apply(x, weight)
            return x

    return Stack()


def step(torch, o, model, optimizer):
    begin = time.monotonic()
    optimizer.zero_grad(set_to_none=False)
    x = torch.ones(1, requires_grad=True)
    for _ in range(o.micros - 1):
        with model.no_sync():
            model(x).sum().backward()
    model(x).sum().backward()
    update = time.monotonic()
    optimizer.step()
    end = time.monotonic()
    return end - begin, end - update


def rank_main(o):
    import torch
    from torch.distributed.optim import ZeroRedundancyOptimizer

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="file://" + o.meet, rank=o.rank, world_size=o.ranks)
    before = memory("VmRSS")
    model = torch.nn.parallel.DistributedDataParallel(make_model(torch, o))
    options = {"lr": 1e-3, "weight_decay": 0.01}
    if o.system == "zero":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, **options)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), **options)
    times = [step(torch, o, model, optimizer) for _ in range(WARM + o.steps)][WARM:]
    best = min(times)
    parameters = o.params // o.layers // WIDTH * WIDTH * o.layers
    if o.rank == 0:
        print(json.dumps({
            "system": SYSTEMS[o.system], "torch": torch.__version__, "ranks": o.ranks, "params": parameters, "micros": o.micros,
            "step_ms": round(best[0] * 1e3, 3), "update_ms": round(statistics.median(t[1] for t in times) * 1e3, 3),
            "update_ns_per_param": round(min(t[1] for t in times) * 1e9 / parameters * (o.ranks if o.system == "zero" else 1), 3),
            "mem_peak": memory("VmHWM") - before,
        }), flush=True)
    torch.distributed.barrier()


def job(o, system):
    """Runs one system on all ranks; what rank 0 printed, or None."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", **ALLOCATOR)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.abspath(__file__), "--ranks", str(o.ranks), "--params", str(o.params), "--layers", str(o.layers), "--steps",
                   str(o.steps), "--micros", str(o.micros), "--compute", str(o.compute), "--system", system, "--meet", folder + "/meet"]
        ranks = [subprocess.Popen(command + ["--rank", str(r)], env=environment, stdout=subprocess.PIPE, text=True) for r in range(o.ranks)]
        outputs = [rank.communicate()[0] for rank in ranks]
        return json.loads(outputs[0]) if not any(rank.returncode for rank in ranks) else None


def main():
    o = arguments()
    if o.rank is not None:
        rank_main(o)
        return 0
    try:
        import torch  # noqa: F401
    except ImportError:
        print("# PyTorch is not installed: nothing stands beside weir-zero (Debian: python3-torch)", file=sys.stderr)
        return 0
    status = 0
    if not o.json:
        print("# %-30s %10s %10s %10s %12s" % ("PyTorch", "step", "update", "a param", "mem_peak"))
    for system in SYSTEMS:
        result = job(o, system)
        if result is None:
            status = 1
        elif o.json:
            print(json.dumps(result), flush=True)
        else:
            print("  %-30s %10.1f %10.1f %10.2f %12.1f" % (result["system"], result["step_ms"], result["update_ms"], result["update_ns_per_param"],
                                                           result["mem_peak"] / 2**20), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
