"""Records jobs at the size of a GPU of 80 GB on the runtime in software: PyTorch's memory snapshots, for `zico convert`.

    PYTHON tests/cuda-runtime/record.py RUNTIME JOB FILE.pickle [--iterations N] [--batch N] [--memory GIB]

RUNTIME is the folder that build.py makes, PYTHON has the PyTorch that it was made for (target/torch/cuda and
target/torch/environment after .ci/torch). Sizes, order and lifetimes are those of PyTorch with its own allocator; times
are those of the host, which say nothing of a GPU. Iterations are marked.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

JOBS = Path(__file__).resolve().parents[2] / "zico-torch" / "python" / "tests" / "jobs"

#: Language models by width, blocks, length of the text and words; with a batch.
MODELS = {
    "gpt2-small": (768, 12, 1024, 50257, 16),
    "gpt2-medium": (1024, 24, 1024, 50257, 8),
    "gpt2-large": (1280, 36, 1024, 50257, 4),
}


def with_runtime(arguments: argparse.Namespace) -> None:
    """Starts this program anew with the runtime's libraries, unless it has them."""
    if os.environ.get("ZICO_RUNTIME_KERNEL_NS") == "0":
        return
    variables = json.loads((arguments.runtime / "environment.json").read_text())
    # Kernels take no time: nobody waits for them.
    variables |= {"ZICO_DRIVER_MEMORY": str(arguments.memory << 30), "ZICO_RUNTIME_KERNEL_NS": "0"}
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | variables)


def job(name: str, batch: int | None) -> Callable[[], None]:
    """A training's step, on the device."""
    import torch
    import torch.nn.functional as F

    sys.path.insert(0, str(JOBS))
    import train

    width, blocks, length, words, usual = MODELS[name]
    # What is made on the device is never touched, so it takes no memory of the machine.
    with torch.device("cuda"):
        model = train.GPT(words, width, blocks, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        x = torch.zeros(batch or usual, length, dtype=torch.int64, device="cuda")
        out = model(x)
        y = torch.zeros(out.shape[:-1], dtype=torch.int64, device="cuda")
        F.cross_entropy(out.flatten(0, -2), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runtime", type=Path)
    parser.add_argument("job", choices=MODELS)
    parser.add_argument("file", type=Path)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--memory", type=int, default=80)
    arguments = parser.parse_args()
    with_runtime(arguments)
    # Of kernels that do nothing: values are nonsense.
    warnings.simplefilter("ignore")
    import torch

    torch.backends.cudnn.enabled = False
    torch.cuda.memory._record_memory_history(context=None, max_entries=10_000_000)
    step = job(arguments.job, arguments.batch)
    for _ in range(arguments.iterations):
        with torch.profiler.record_function("iteration"):
            step()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(str(arguments.file))
    peak = torch.cuda.max_memory_allocated() / 2**30
    print(f"{arguments.job}: {arguments.iterations} iterations, at most {peak:.2f} GiB, in {arguments.file}")


if __name__ == "__main__":
    main()
