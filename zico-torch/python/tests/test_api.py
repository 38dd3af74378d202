"""What the package's functions do, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import zico

Python = Callable[..., str]


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("8GiB", 8 << 30), ("8G", 8 << 30), ("8GB", 8 * 10**9), ("1.5MiB", 3 << 19), ("7", 7), (7, 7), (" 2 KiB ", 2048)],
)
def test_bytes_are_read_as_people_write_them(text: int | str, bytes_: int) -> None:
    assert zico.parse_bytes(text) == bytes_


@pytest.mark.parametrize("text", ["", "GiB", "8 GiBs", "-1", "0", 0, -5, "1e9", "8gib"])
def test_what_is_no_number_of_bytes_is_refused(text: int | str) -> None:
    with pytest.raises(ValueError, match="bytes"):
        zico.parse_bytes(text)


def test_pools_and_jobs_without_torch() -> None:
    pool = zico.Pool.host("64MiB", capacity="256MiB")
    job = pool.join("a")
    with job.iteration():
        pass
    assert job.stats()["iterations"] == 1
    with pytest.raises(zico.ZicoError, match="in no iteration") as refused:
        job.end()
    assert refused.value.status == 6
    pool.set_budget("32MiB")
    assert pool.stats() == {"budget": 32 << 20, "held": 0, "pending": 0}
    with pytest.raises(zico.ZicoError, match="more than the device's"):
        pool.set_budget("1GiB")
    with pytest.raises(zico.ZicoError, match="not enabled"):
        zico.stats()


def test_memory_is_zicos_from_the_threshold_on(python: Python) -> None:
    out = python(
        """
        import torch, zico, zico.torch
        zico.torch.enable("256MiB", device="cpu", name="here")
        assert zico.torch.is_enabled()
        small, large = torch.empty(1000), torch.empty(1 << 20)
        assert zico.stats()["allocations"] == 1, zico.stats()
        assert zico.stats()["requested"] == 4 << 20
        assert large.data_ptr() % 512 == 0
        nothing = torch.empty(0), torch.empty(0, 5)
        views = large[5:], large.clone()
        assert zico.stats()["requested"] == 8 << 20
        del large, views
        assert zico.stats()["requested"] == 0
        for wrong in (dict(budget="1GiB"), dict()):
            try: zico.torch.enable(**wrong)
            except RuntimeError as error: print(error)
        kept = torch.ones(1 << 20)
        zico.torch.disable()
        more = torch.empty(1 << 20)
        assert not zico.torch.is_enabled()
        print(kept.sum().item())
        del kept, more
        """
    )
    assert out.splitlines() == ["zico is enabled already in this process"] * 2 + ["1048576.0"]


def test_the_profiler_sees_the_memory(python: Python) -> None:
    python(
        """
        import torch, zico.torch
        from torch.profiler import ProfilerActivity, profile
        zico.torch.enable("256MiB", device="cpu")
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            x = torch.empty(1 << 20)
            del x
        events = [e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]"]
        assert [e.nbytes() for e in events if abs(e.nbytes()) >= 1 << 20] == [4 << 20, -(4 << 20)], events
        """
    )


def test_tensors_are_freed_on_any_thread(python: Python) -> None:
    python(
        """
        import threading, torch, zico, zico.torch
        zico.torch.enable("512MiB", device="cpu")
        shelf, lock = [], threading.Lock()
        def work(seed):
            for turn in range(50):
                tensor = torch.full((1 << 16,), seed * 1000 + turn)
                with lock: shelf.append((seed * 1000 + turn, tensor))
                del tensor
                with lock: value, other = shelf.pop(0)
                assert (other == value).all()
                del other
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [t.start() for t in threads]; [t.join() for t in threads]
        shelf.clear()
        assert zico.stats()["requested"] == 0, zico.stats()
        """
    )


def test_out_of_memory_is_pytorchs_own_error_and_training_goes_on(python: Python) -> None:
    out = python(
        """
        import torch, zico, zico.torch
        torch.manual_seed(0)
        zico.torch.enable("64MiB", device="cpu", name="greedy")
        model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def step(rows):
            optimizer.zero_grad()
            loss = model(torch.ones(rows, 512)).square().mean()
            loss.backward()
            optimizer.step()
            return loss.item()
        first = step(64)
        for rows in (64, 1 << 15, 64, 1 << 16, 64):
            try: print(rows, step(rows) < first)
            except torch.OutOfMemoryError as error:
                assert "greedy asked" in str(error) and "budget 64 MiB" in str(error), error
                print(rows, "out of memory")
        """
    )
    expected = ["64 True", "32768 out of memory", "64 True", "65536 out of memory", "64 True"]
    assert out.splitlines() == expected


def test_out_of_memory_in_backward_can_be_tried_again(python: Python) -> None:
    python(
        """
        import torch, zico
        import zico.torch
        pool = zico.Pool.host("1GiB")
        job = zico.torch.enable(pool=pool, device="cpu")
        with job.iteration():
            weight = torch.ones(1024, 1024, requires_grad=True)
            x = weight
            for _ in range(8): x = (x * 1.01).sin()
            loss = x.sum()
            held = job.stats()["requested"]
        pool.trim()
        pool.set_budget(pool.stats()["held"])
        with job.iteration():
            try: loss.backward(retain_graph=True); raise SystemExit("there was enough")
            except torch.OutOfMemoryError: pass
            assert job.stats()["requested"] == held, (job.stats(), held)
        pool.set_budget("1GiB")
        with job.iteration():
            loss.backward()
        assert weight.grad is not None and weight.grad.isfinite().all()
        """
    )
