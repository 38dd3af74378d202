"""A training on CUDA that also takes waves of tensors to the device and back, and looks whether they are still themselves.

    python copies.py SEED [--iterations N] [--wave MIB]
"""

import argparse

import torch
import torch.nn as nn


def pattern(seed: int, mib: int) -> torch.Tensor:
    """A tensor on the host of so many MiB, from a number."""
    return torch.arange(seed, seed + (mib << 18), dtype=torch.int32)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--wave", type=int, default=96)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seed = arguments.seed << 24
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept, small = pattern(seed, 8).cuda(), torch.zeros(10, device="cuda")
    for iteration in range(arguments.iterations):
        marked = seed + 1000 * iteration
        loss = model(torch.zeros(64, 256, device="cuda")).square().mean()
        wave = [pattern(marked + i, 16).cuda() for i in range(arguments.wave // 16)]
        wave.append(wave[0].clone())
        loss.backward()
        # The device is behind: it reads the wave when all of this has been freed, and the iteration is over.
        for _ in range(200):
            small.add_(1)
        read = [tensor.to("cpu", non_blocking=True) for tensor in wave]
        del wave, loss
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        for i, tensor in enumerate(read[:-1]):
            assert torch.equal(tensor, pattern(marked + i, 16)), (iteration, i)
        assert torch.equal(read[-1], pattern(marked, 16)), iteration
        assert torch.equal(kept.cpu(), pattern(seed, 8)), iteration
        print(iteration, flush=True)


if __name__ == "__main__":
    main()
