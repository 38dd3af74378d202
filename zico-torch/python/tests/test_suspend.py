"""Tensors that go to the host and come back: in one process, and in two."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gpu
import pytest
from conftest import broker, finish, last_line, start, train

Python = Callable[..., str]

GPT = ["gpt", "--iterations", 8]

#: A training of four turns, each begun by a line of its input; between them its tensors are away. Without a socket it is
#: PyTorch's own.
TURNS = """
import hashlib, sys
import torch
seed, socket = int(sys.argv[1]), sys.argv[2]
sys.stdin.readline()
if socket:
    import zico, zico.torch
    zico.torch.enable(socket=socket, device="cpu", name=f"job{seed}")
torch.manual_seed(seed)
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)])
optimizer = torch.optim.Adam(model.parameters())
for turn in range(4):
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(32, 1024)).square().mean().backward()
        optimizer.step()
    digest = hashlib.sha256()
    for value in model.parameters():
        digest.update(value.detach().numpy().tobytes())
    print(digest.hexdigest(), flush=True)
    if socket:
        assert zico.torch.suspend() > 40 << 20
        assert zico.stats()["reserved"] == 0, zico.stats()
    print("away", flush=True)
    sys.stdin.readline()
    if socket:
        zico.torch.resume()
"""


def digests(socket: Path | str) -> list[list[str]]:
    """What two processes compute that are on the device in turn."""
    jobs = [start(sys.executable, "-c", TURNS, seed, socket) for seed in (1, 2)]
    found: list[list[str]] = [[], []]
    for _ in range(4):
        for job, seen in zip(jobs, found, strict=True):
            assert job.stdin is not None and job.stdout is not None
            job.stdin.write("\n")
            job.stdin.flush()
            seen.append(job.stdout.readline().strip())
            if job.stdout.readline() != "away\n":
                pytest.fail(job.communicate()[1][-4000:])
    for job in jobs:
        finish(job)
    return found


def test_two_trainings_have_the_device_in_turn() -> None:
    """Each keeps 67 MiB: the budget has room for both, as it has to for one to come back beside the other."""
    with broker(144 << 20) as socket:
        shared = digests(socket)
    assert shared == digests("")
    assert len({digest for seen in shared for digest in seen}) == 8


def test_what_is_refused_while_tensors_are_away(python: Python) -> None:
    out = python(
        """
        import json, torch, zico, zico.torch
        zico.torch.enable("64MiB", device="cpu", name="here")
        said = []
        def refused(call, *arguments):
            try: call(*arguments)
            except (zico.ZicoError, RuntimeError, MemoryError) as error: said.append(str(error))
            else: raise AssertionError("it is not refused")
        kept, dropped = torch.arange(4 << 20), torch.ones(1 << 20)
        with zico.torch.suspended() as gone:
            assert gone >= 36 << 20, gone
            assert zico.stats()["reserved"] == 0 and zico.stats()["requested"] == 36 << 20
            refused(zico.torch.suspend)
            refused(torch.ones, 1 << 20)
            refused(torch.ones, 1 << 20)
            small = torch.ones(10)
            del dropped
        assert zico.stats()["requested"] == 32 << 20
        assert kept.sum().item() == (4 << 20) * ((4 << 20) - 1) // 2
        assert small.sum() + torch.ones(1 << 20).sum() == 10 + (1 << 20)
        zico.torch.resume()
        # Within an iteration, which ends.
        with zico.torch.suspended():
            pass
        assert kept[-1] == (4 << 20) - 1
        print(json.dumps(said))
        """
    )
    said = json.loads(out)
    assert len(said) == 3 and all("suspended" in text for text in said), said


def test_some_tensors_stay_and_of_some_nothing_is_needed(python: Python) -> None:
    """The weights are used while the state of the optimizer is away; of a cache nothing is copied."""
    python(
        """
        import torch, zico, zico.torch
        zico.torch.enable("256MiB", device="cpu", name="here")
        model = torch.nn.Linear(1024, 1024)
        optimizer = torch.optim.Adam(model.parameters())
        given = torch.randn(64, 1024)
        model(given).square().mean().backward()
        optimizer.step()
        cache, state = torch.ones(4 << 20), [state["exp_avg"] for state in optimizer.state.values()]
        before, sums = model.weight.sum().item(), [part.sum().item() for part in state]
        held = zico.stats()["reserved"]
        with zico.torch.suspended(keep=[*model.parameters(), given], discard=[cache]) as gone:
            assert gone >= 24 << 20, gone
            assert zico.stats()["reserved"] == held - gone > 4 << 20, zico.stats()
            assert model.weight.sum().item() == before
            with torch.no_grad():
                model.weight.mul_(2)
        assert model.weight.sum().item() == 2 * before
        assert [part.sum().item() for part in state] == sums
        assert cache.fill_(3).sum() == 3 * (4 << 20)
        everything = [*model.parameters(), *(p.grad for p in model.parameters()), given, cache]
        everything += [part for state in optimizer.state.values() for part in state.values()]
        assert zico.torch.suspend(keep=everything) == 0
        torch.ones(1 << 20)
        """
    )


def test_a_job_that_could_not_come_back_does_not_go(python: Python) -> None:
    python(
        """
        import torch, zico, zico.torch
        pool = zico.Pool.host("64MiB")
        zico.torch.enable(pool=pool, device="cpu", name="here")
        other = pool.join("other")
        large = torch.ones(10 << 20)
        gone = zico.torch.suspend()
        with other.use():
            beside = torch.ones(4 << 20)
            try: more = torch.ones(4 << 20)
            except (RuntimeError, MemoryError) as error: assert "other" in str(error), error
            else: raise AssertionError("it has the room of one that is away")
        zico.torch.resume()
        assert large.sum() == 10 << 20 and beside.sum() == 4 << 20
        """
    )


@gpu.needs_cuda
def test_tensors_of_a_gpu_go_and_come_back() -> None:
    gpu.run(
        """
        zico.torch.enable("256MiB")
        kept = torch.arange(4 << 20, device="cpu").cuda()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            beside = torch.arange(1 << 20, device="cpu").cuda()
        before = kept.data_ptr()
        for _ in range(3):
            with zico.torch.suspended() as gone:
                assert gone >= 40 * MIB, gone
                assert zico.stats()["reserved"] == 0, zico.stats()
            assert kept.data_ptr() == before
            assert torch.equal(kept.cpu(), torch.arange(4 << 20))
            assert torch.equal(beside.cpu(), torch.arange(1 << 20))
        """
    )


def under(socket: Path, stats: Path, *options: object) -> subprocess.Popen[str]:
    """Starts a training under a broker, as a user does."""
    run = [sys.executable, "-m", "zico", "run", "--device", "cpu", "--socket", socket, "--stats", stats, *options]
    return start(*run, "--", *train(*GPT))


def test_trainings_that_keep_more_than_the_budget_take_turns(tmp_path: Path) -> None:
    """Each keeps 65 MiB of 90, and no line of the script is changed."""
    alone = last_line(finish(start(*train(*GPT))))
    files = [tmp_path / name for name in ("a", "b", "c")]
    with broker(90 << 20) as socket:
        trainings = [under(socket, file, "--time-slice", "300ms") for file in files]
        assert [last_line(finish(training)) for training in trainings] == [alone] * 3
    told = [json.loads(file.read_text()) for file in files]
    assert all(stats["refusals"] == 0 and stats["iterations"] >= 8 for stats in told), told
    assert all(stats["requested_peak"] > 85 << 20 for stats in told), told


def test_without_turns_they_do_not_fit(tmp_path: Path) -> None:
    with broker(90 << 20) as socket:
        trainings = [under(socket, tmp_path / name) for name in ("a", "b")]
        said = [training.communicate(timeout=240)[1] for training in trainings]
    assert any(training.returncode for training in trainings)
    assert any("zico: out of memory" in text for text in said), said


#: Steps of 4 MiB, and then some that come to take 64 MiB, of which each of two has half when the other goes on.
GROWS = """
import os, sys, time, torch
from pathlib import Path
here, name, other = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
def meet(place):
    (here / f"{name}-{place}").touch()
    while not (here / f"{other}-{place}").exists():
        time.sleep(0.01)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(7):
    if step == 5:
        meet("before")
    model(torch.ones(4)).sum().backward()
    pieces = []
    for piece in range(1 if step < 5 else 16):
        pieces.append(torch.full((1 << 20,), step * 100.0 + piece))
        if step == 5 and piece == 7:
            meet("within")
    for number, piece in enumerate(pieces):
        assert (piece == step * 100.0 + number).all(), (step, number)
    del pieces, piece
    optimizer.step()
    optimizer.zero_grad()
print("done")
"""


def grow(socket: Path, here: Path, *options: object) -> list[subprocess.Popen[str]]:
    """Starts two that come to need each other's room in the middle of a step."""
    run = [sys.executable, "-m", "zico", "run", "--device", "cpu", "--socket", socket, *options]
    jobs = [("a", "b"), ("b", "a")]
    return [start(*run, "--stats", here / f"{one}.json", "--", sys.executable, "-c", GROWS, here, one, two) for one, two in jobs]


def test_steps_that_come_to_need_more_are_interrupted(tmp_path: Path) -> None:
    with broker(90 << 20) as socket:
        assert [last_word(finish(job)) for job in grow(socket, tmp_path, "--interruptible")] == ["done"] * 2
    told = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("a", "b")]
    assert all(stats["refusals"] == 0 and stats["requested_peak"] >= 64 << 20 for stats in told), told


def test_without_interruption_one_of_them_is_told(tmp_path: Path) -> None:
    with broker(90 << 20) as socket:
        said = [job.communicate(timeout=240)[1] for job in grow(socket, tmp_path)]
    assert sum("zico: out of memory" in text for text in said) == 1, said


def last_word(out: str) -> str:
    return out.split()[-1]


@pytest.mark.parametrize("text", ["-1s", "nan", "500"])
def test_a_slice_that_is_no_time_is_refused(text: str) -> None:
    refused = start(sys.executable, "-m", "zico", "run", f"--time-slice={text}", "--", sys.executable, "-c", "")
    said = refused.communicate(timeout=60)[1]
    assert refused.returncode != 0 and "Traceback" not in said, said
    assert "is no time: write 500ms" in said, said
