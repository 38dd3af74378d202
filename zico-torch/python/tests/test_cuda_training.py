"""Whole training on PyTorch's CUDA backend."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import JOBS, finish, last_line, start
from gpu import IN_SOFTWARE, environment, needs_cuda, run

pytestmark = needs_cuda

STEADY = """
sys.path.insert(0, {jobs!r})
import train
torch.manual_seed(0)
zico.torch.enable("1GiB")
if {model!r} == "gpt":
    model, data = train.GPT().cuda(), train.texts(4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
else:
    import torchvision
    model, data = torchvision.models.resnet18(num_classes=10).cuda(), train.images(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x, y = data.tensors
FIGURES = "allocations", "frees", "allocated_total", "freed_total", "iterations"
seen, before = [], zico.stats()
for _ in range(6):
    out = model(x.cuda())
    loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.cuda().reshape(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    del out, loss
    now = zico.stats()
    seen.append([now[name] - before[name] for name in FIGURES] + [now["requested"]])
    before = now
print(*seen, sep="\\n", file=sys.stderr)
assert all(figures == seen[2] for figures in seen[2:]), seen
assert seen[2][0] == seen[2][1] > 100 and seen[2][4] == 1, seen
torch.cuda.synchronize()
"""


@pytest.mark.parametrize("model", ["gpt", "resnet18"])
def test_iterations_are_alike(model: str) -> None:
    """Each iteration allocates as much as the one before, as often, and frees all of it: nothing leaks, nothing is missed."""
    run(STEADY.format(jobs=str(JOBS), model=model))


def test_a_script_under_zico_run(tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    zico = [sys.executable, "-m", "zico", "run", "--budget", "1GiB", "--stats", stats, "--device", "cuda"]
    script = [sys.executable, JOBS / "train.py", "gan", "--device", "cuda", "--iterations", 5]
    found = last_line(finish(start(*zico, "--", *script, **environment())))
    told = json.loads(stats.read_text())
    # Two steps of one optimizer and one of the other.
    assert told["iterations"] >= 15 and told["allocations"] > 500, told
    assert 0 < told["reserved_peak"] <= told["budget"] == 1 << 30, told
    if not IN_SOFTWARE:
        alone = last_line(finish(start(*script)))
        assert found == alone, "other numbers than with PyTorch's own allocator"
