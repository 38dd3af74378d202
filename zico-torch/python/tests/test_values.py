"""Training under zico gives the same losses and weights, to the bit, as with PyTorch's own allocator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import LONG, find, finish, last_line, start, train, under_zico

JOBS = [
    # `test_jobs` trains these in pairs, and looks at the same.
    pytest.param(["cnn"], marks=LONG),
    pytest.param(["gpt"], marks=LONG),
    ["gan", "--iterations", 12],
    ["gpt", "--iterations", 3, "--accumulate", 3],
    ["cnn", "--workers", 2],
    pytest.param(
        ["resnet18"],
        marks=pytest.mark.skipif(not find("torchvision"), reason="torchvision is not installed"),
    ),
]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: "-".join(str(word) for word in job))
def test_losses_and_weights_are_bit_identical(job: list[object], tmp_path: Path) -> None:
    command = train(*job)
    alone = last_line(finish(start(*command)))
    stats = tmp_path / "stats.json"
    shared = last_line(finish(start(*under_zico("1GiB", stats, command))))
    assert shared == alone
    found = json.loads(stats.read_text())
    # It was zico's memory, and the iterations were marked.
    assert found["requested_peak"] > 10 << 20
    assert found["allocations"] > 100
    assert found["refusals"] == 0
    steps = {"gan": 36, "gpt--iterations-3--accumulate-3": 3}
    words = "".join(str(word) for word in job)
    expected = steps["gan"] if "gan" in words else (3 if "accumulate" in words else 6)
    # The last mark is followed by nothing, or by an iteration that only reads the weights.
    assert expected <= found["iterations"] <= expected + 1
    assert found["held"] <= found["budget"] == 1 << 30
