"""``zico run --record``: a trace of a real run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
import gpu
from conftest import finish, last_line, start, train, under_zico
from test_run import run

TAGS = {0: "free", 1: "persistent", 2: "iteration", 4: "launch", 5: "phase", 7: "use"}
Steps = list[tuple[str, int]]


def read(path: Path) -> tuple[str, Steps, list[tuple[int, Steps]]]:
    """A trace file: its name, its setup, and its iterations with the nanoseconds that they took."""
    file = path.read_bytes()
    # Version 3 where other streams use blocks; there are no names of operations then.
    assert file[:7] in (b"ZTRACE\1", b"ZTRACE\3"), file[:7]
    content, at = zlib.decompress(file[7:]), 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text() -> str:
        nonlocal at
        length = number()
        at += length
        return content[at - length : at].decode()

    def step() -> tuple[str, int]:
        tag, value = number(), number()
        # Of a use the stream counts here.
        return TAGS[tag], number() if tag == 7 else value

    name, _ = text(), text()
    assert file[6] == 1 or number() == 0
    setup = [step() for _ in range(number())]
    iterations = [(number(), [step() for _ in range(number())]) for _ in range(number())]
    assert at == len(content)
    return name, setup, iterations


def live(setup: Steps, iterations: list[tuple[int, Steps]]) -> list[int]:
    """The bytes that are live at the end of each iteration."""
    blocks: list[int] = []
    ends = []
    for steps in [setup, *(steps for _, steps in iterations)]:
        for what, value in steps:
            if what == "free":
                blocks[-1 - value] = 0
            elif what in ("persistent", "iteration"):
                blocks.append(value)
        ends.append(sum(blocks))
    return ends


def recording(path: Path, stats: Path, *job: object) -> list[object]:
    command = under_zico("1GiB", stats, train(*job))
    return [*command[:4], "--record", path, "--name", "mine", *command[4:]]


def test_a_recording_is_what_the_job_did(tmp_path: Path) -> None:
    path, stats = tmp_path / "job.ztrace", tmp_path / "stats.json"
    alone = last_line(finish(start(*train("gpt"))))
    began = time.monotonic()
    assert last_line(finish(start(*recording(path, stats, "gpt")))) == alone
    took = (time.monotonic() - began) * 1e9
    name, setup, iterations = read(path)
    found = json.loads(stats.read_text())
    assert name == "mine"
    assert len(iterations) == 6
    steps = [step for _, steps in iterations for step in steps]
    allocs = [step for step in setup + steps if step[0] in ("persistent", "iteration")]
    # All that was allocated, but for what was freed before the first iteration or came after the last one.
    assert 0.95 * found["allocations"] < len(allocs) <= found["allocations"]
    # 19 parameters are large enough. The optimizer makes its state, twice as much, in the first iteration.
    assert sum(what == "persistent" for what, _ in setup) == 19
    assert sum(what == "persistent" for what, _ in iterations[0][1]) == 2 * 19
    # From the third on all are alike.
    sizes = [sorted(size for what, size in steps if what == "iteration") for _, steps in iterations]
    assert sizes[2] == sizes[3] == sizes[4]
    ends = live(setup, iterations)
    assert ends[3] == ends[4] == ends[5]
    # Work is in the time of its iteration. How much of it depends on who else is on the machine.
    for wall, steps in iterations:
        work = sum(value for what, value in steps if what == "launch")
        assert 0 < work <= wall
    assert sum(wall for wall, _ in iterations) < took
    # It is not written over.
    again = run("--budget", "1GiB", "--device", "cpu", "--record", path, "--", sys.executable, "-c", "")
    assert again.returncode != 0
    assert "is there already" in again.stderr, again.stderr


def test_a_killed_job_leaves_most_of_its_iterations(tmp_path: Path) -> None:
    path = tmp_path / "job.ztrace"
    job = start(*recording(path, tmp_path / "stats", "cnn", "--epochs", 1000))
    for _ in range(1200):
        if path.exists() and path.stat().st_size > 0 and len(read(path)[2]) >= 5:
            break
        assert job.poll() is None, job.communicate()
        time.sleep(0.05)
    job.send_signal(signal.SIGKILL)
    job.communicate()
    _, setup, iterations = read(path)
    assert len(iterations) >= 5
    assert setup
    ends = live(setup, iterations)
    assert ends[3] == ends[4]


@pytest.mark.parametrize("ends", ["raise ValueError", "sys.exit(3)"])
def test_however_python_ends_nothing_is_lost(ends: str, tmp_path: Path) -> None:
    code = (
        "import sys, torch\n"
        "model = torch.nn.Linear(512, 512); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(7):\n"
        "    loss = model(torch.ones(256, 512)).sum(); loss.backward(); optimizer.step(); optimizer.zero_grad()\n"
        f"{ends}\n"
    )
    path = tmp_path / "job.ztrace"
    command = under_zico("64MiB", tmp_path / "stats", [sys.executable, "-c", code])
    done = subprocess.run(
        [str(word) for word in [*command[:4], "--record", path, *command[4:]]], capture_output=True, text=True
    )
    assert done.returncode != 0, done
    assert len(read(path)[2]) == 7


def test_where_no_iteration_ends_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "job.ztrace"
    command = under_zico("64MiB", tmp_path / "stats", [sys.executable, "-c", "import torch; torch.ones(1 << 20)"])
    done = subprocess.run(
        [str(word) for word in [*command[:4], "--record", path, *command[4:]]], capture_output=True, text=True
    )
    assert done.returncode == 0, done
    assert "no iteration has ended" in done.stderr, done.stderr


#: Lends a block to another stream, and has one made there.
LENDS = """
job = zico.torch.enable("256MiB")
job.record({path!r}, "lends")
side, other = torch.cuda.Stream(), torch.cuda.Stream()
for _ in range(3):
    with job.iteration():
        x = torch.empty(MIB, device="cuda")
        x.record_stream(side)
        with torch.cuda.stream(other):
            y = torch.empty(MIB, device="cuda")
        x.record_stream(torch.cuda.current_stream())
        del x, y
job.end_recording()
"""


@gpu.needs_cuda
def test_a_recording_says_which_other_streams_use_blocks(tmp_path: Path) -> None:
    path = tmp_path / "lends.ztrace"
    gpu.run(LENDS.format(path=str(path)))
    _, _, iterations = read(path)
    used = [[value for what, value in steps if what == "use"] for _, steps in iterations]
    # The job's own stream is none of the others.
    assert used == [[1, 2]] * 3
