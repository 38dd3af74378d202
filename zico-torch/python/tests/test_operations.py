"""Recordings of operations: what each reads and writes, and which are recorded at all."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Recording:
    """A file of version 2, as zico_mock::trace::format describes it."""

    name: str = ""
    provenance: str = ""
    setup: list[tuple[int, int]] = field(default_factory=list)
    #: Of each iteration its steps: (tag, ...).
    iterations: list[list[tuple[Any, ...]]] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)


class Reader:
    def __init__(self, content: bytes) -> None:
        self.content, self.at, self.names = content, 0, list[str]()

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str:
        length = self.number()
        self.at += length
        return self.content[self.at - length : self.at].decode()

    def numbers(self) -> list[int]:
        return [self.number() for _ in range(self.number())]

    def step(self, recording: Recording) -> tuple[Any, ...]:
        tag, value = self.number(), self.number()
        if tag in (1, 2):
            recording.bytes.append(value)
            return tag, len(recording.bytes) - 1
        newest = len(recording.bytes) - 1
        if tag == 6:
            name, repeats = self.names[self.number()], bool(self.number())
            reads, writes = ([newest - back for back in self.numbers()] for _ in range(2))
            return tag, name, repeats, reads, writes, value
        return tag, newest - value if tag == 0 else value


def read(path: Path) -> Recording:
    file = path.read_bytes()
    assert file[:7] == b"ZTRACE\x02"
    reader, found = Reader(zlib.decompress(file[7:])), Recording()
    found.name, found.provenance = reader.text(), reader.text()
    reader.names = [reader.text() for _ in range(reader.number())]
    found.setup = [reader.step(found) for _ in range(reader.number())]
    for _ in range(reader.number()):
        reader.number()
        found.iterations.append([reader.step(found) for _ in range(reader.number())])
    assert reader.at == len(reader.content)
    return found


def train(path: Path, iterations: int = 4, **settings: Any) -> Recording:
    import torch
    from zico.torch import record_operations

    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    with record_operations(path, "tiny", **settings):
        for _ in range(iterations):
            loss = model(torch.ones(2, 8)).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            del loss
    return read(path)


def operations(iteration: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [step for step in iteration if step[0] == 6]


def test_what_operations_use_is_alive_and_the_iteration_is_steady(tmp_path: Path) -> None:
    found = train(tmp_path / "tiny.ztrace")
    assert found.name == "tiny" and "measured" in found.provenance
    first, second = found.iterations
    shape = [[(step[1], step[2], len(step[3]), len(step[4])) for step in operations(one)] for one in (first, second)]
    assert shape[0] == shape[1]
    alive = {block for _, block in found.setup}
    for steps in found.iterations:
        before = set(alive)
        for step in steps:
            if step[0] in (1, 2):
                alive.add(step[1])
            elif step[0] == 0:
                alive.remove(step[1])
            elif step[0] == 6:
                assert alive.issuperset(step[3] + step[4])
        # Gradients and activations are gone before the next iteration begins.
        assert alive == before
    # Weights, biases and momenta of 8 x 16 + 16, 2 x 16, 16 x 4 + 4 floats persist.
    persistent = sum(found.bytes[block] for tag, block in found.setup if tag == 1)
    assert persistent == 2 * 4 * (8 * 16 + 16 + 2 * 16 + 16 * 4 + 4) + 8  # and a counter of batches
    assert (5, 2) in first  # the backward pass is marked


def test_views_are_no_operations_and_changes_are_writes(tmp_path: Path) -> None:
    steps = train(tmp_path / "tiny.ztrace").iterations[1]
    names = [step[1] for step in operations(steps)]
    assert not {"aten::t", "aten::detach", "aten::view", "aten::empty"} & set(names)
    product = next(step for step in operations(steps) if step[1] == "aten::addmm")
    # Input, weights and biases; the transposed view of the weights is these.
    assert (len(product[3]), len(product[4])) == (3, 1)
    changes = [step for step in operations(steps) if step[1] == "aten::add_" and not set(step[3]) & set(step[4])]
    assert changes and all(len(step[4]) == 1 for step in changes)
    norm = next(step for step in operations(steps) if "batch_norm" in step[1] and "backward" not in step[1])
    assert (len(norm[3]), norm[2]) == (3, True)
    random = [step for step in operations(steps) if not step[2]]
    assert random and all("bernoulli" in step[1] or "dropout" in step[1] for step in random)


def test_times_are_measured_or_by_a_rule(tmp_path: Path) -> None:
    from zico.torch import Rates

    rates = Rates(flops_per_second=1e9, bytes_per_second=1e30, launch_seconds=0)
    steps = train(tmp_path / "rule.ztrace", rates=rates).iterations[0]
    product = next(step for step in operations(steps) if step[1] == "aten::addmm")
    assert product[5] == 2 * 2 * 8 * 16
    measured = train(tmp_path / "clock.ztrace").iterations[0]
    assert all(step[5] > 0 for step in operations(measured))


def test_what_is_recorded_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "tiny.ztrace"
    assert len(train(path, iterations=6, skip=2, count=3).iterations) == 3
    # The momenta are made in the first iteration.
    first = train(path, iterations=3, skip=0, count=1)
    persistent = sum(found for block, found in enumerate(first.bytes) if (1, block) in first.setup)
    assert persistent < 2 * 4 * 244
    with pytest.raises(ValueError, match="no iteration was recorded: 1 have ended, of which the first 2"):
        train(path, iterations=1, skip=2)


def test_marks_where_there_is_no_optimizer_and_what_a_phase_is(tmp_path: Path) -> None:
    import torch
    from zico.torch import record_operations

    path = tmp_path / "loop.ztrace"
    x = torch.ones(100)
    with record_operations(path, skip=0, count=2) as recorder:
        for _ in range(3):
            recorder.phase("forward")
            y = x * 2
            z = y + 1
            del y, z
            recorder.mark()
        with pytest.raises(ValueError, match="no phase"):
            recorder.phase("lunch")
    found = read(path)
    assert [[step[1] for step in operations(one)] for one in found.iterations] == [["aten::mul", "aten::add"]] * 2
    assert [tag for tag, *_ in found.iterations[1]] == [5, 2, 6, 2, 6, 0, 0]
    assert torch.autograd.backward.__name__ == "backward"
