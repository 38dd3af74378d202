"""zico's memory under PyTorch's CUDA tensors: statistics, the lack of memory, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu import IN_SOFTWARE, needs_cuda, run

pytestmark = needs_cuda


def test_pytorchs_statistics_are_zicos() -> None:
    run(
        """
        job = zico.torch.enable("256MiB", name="told")
        assert torch.cuda.memory_allocated() == 0
        def figures():
            cuda = torch.cuda
            return cuda.memory_allocated(), cuda.max_memory_allocated(), cuda.memory_reserved(), cuda.max_memory_reserved()
        x = torch.zeros(10 * MIB, dtype=torch.uint8, device="cuda")
        y = torch.zeros(50 * MIB + 1, dtype=torch.uint8, device="cuda")
        del y
        torch.cuda.synchronize()
        found, told = zico.stats(), figures()
        assert told[:2] == (10 * MIB, 60 * MIB + 512), told
        assert told == tuple(found[n] for n in ("allocated", "allocated_peak", "reserved", "reserved_peak")), (told, found)
        assert told[3] >= 60 * MIB >= told[2] - 52 * MIB, told
        stats = torch.cuda.memory_stats()
        assert stats["requested_bytes.all.peak"] == 60 * MIB + 1 and stats["allocated_bytes.all.freed"] == 50 * MIB + 512
        assert stats["allocation.all.current"] == 1 and stats["allocation.all.peak"] == 2, stats
        assert stats["allocation.all.allocated"] == 2 and stats["allocation.all.freed"] == 1, stats

        torch.cuda.reset_peak_memory_stats()
        assert figures()[:2] == (10 * MIB, 10 * MIB), figures()
        y = torch.zeros(20 * MIB, dtype=torch.uint8, device="cuda")
        del y
        torch.cuda.reset_accumulated_memory_stats()
        stats = torch.cuda.memory_stats()
        assert figures()[:2] == (10 * MIB, 30 * MIB), figures()
        assert stats["allocation.all.allocated"] == stats["allocated_bytes.all.freed"] == 0, stats
        torch.cuda.reset_max_memory_allocated(0)
        assert torch.cuda.max_memory_allocated("cuda:0") == 10 * MIB
        assert "10240 KiB" in torch.cuda.memory_summary()
        """
    )


def test_out_of_memory_in_forward_and_training_goes_on() -> None:
    out = run(
        """
        zico.torch.enable("1GiB", name="greedy")
        model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)]).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        for rows in (64, 64, 1 << 17, 64, 1 << 20, 64): # 256 MiB for each activation, 2 GiB
            try:
                optimizer.zero_grad()
                model(torch.ones(rows, 512, device="cuda")).square().mean().backward()
                optimizer.step()
                print(rows)
            except torch.OutOfMemoryError as error:
                assert "greedy asked" in str(error) and "budget 1 GiB" in str(error), error
                print(rows, "out of memory")
        assert torch.cuda.memory_stats()["num_ooms"] == 2
        torch.cuda.synchronize()
        """
    )
    expected = ["64", "64", "131072 out of memory", "64", "1048576 out of memory", "64"]
    assert out.splitlines() == expected


def test_the_lack_of_memory_has_its_words_by_any_compiler(tmp_path: Path) -> None:
    """Some compilers link a C++ library of their own, whose streams have no locale in a process with two of them."""
    out = run(
        """
        zico.torch.enable("64MiB", name="greedy")
        for _ in range(2):
            try: torch.empty(1 << 28, device="cuda")
            except torch.OutOfMemoryError as error: print(error)
        """,
        CXX="c++ -static-libstdc++",
        XDG_CACHE_HOME=tmp_path,
    )
    assert out.count("Tried to allocate 1073741824 bytes: out of memory: greedy asked 1 GiB") == 2, out


def test_out_of_memory_in_backward_can_be_tried_again() -> None:
    """PyTorch's backward runs on a thread of its own there."""
    run(
        """
        pool = zico.Pool.cuda("1GiB")
        job = zico.torch.enable(pool=pool, name="greedy", marks=False)
        with job.iteration():
            weight = torch.ones(1024, 1024, device="cuda", requires_grad=True)
            x = weight
            for _ in range(8): x = (x * 1.01).sin()
            loss = x.sum()
        torch.cuda.synchronize()
        held = job.stats()["requested"]
        pool.trim()
        pool.set_budget(pool.stats()["held"])
        with job.iteration():
            try: loss.backward(retain_graph=True)
            except torch.OutOfMemoryError as error: assert "greedy asked" in str(error), error
            else: raise SystemExit("there was enough")
            assert job.stats()["requested"] == held, (job.stats(), held)
        pool.set_budget("1GiB")
        with job.iteration():
            loss.backward()
        assert weight.grad.shape == weight.shape
        torch.cuda.synchronize()
        """
    )


def test_no_bytes_are_no_block() -> None:
    """PyTorch asks for no bytes, often, and keeps what it gets by its address."""
    run(
        """
        zico.torch.enable("64MiB")
        nothing = [torch.empty(0, device="cuda") for _ in range(100)] + [torch.empty(0, 5, device="cuda").clone()]
        assert zico.stats()["allocations"] == 0 and all(x.data_ptr() == 0 for x in nothing)
        nothing[0].record_stream(torch.cuda.Stream())
        del nothing
        assert torch.cat([torch.empty(0, device="cuda"), torch.zeros(3, device="cuda")]).shape == (3,)
        assert torch.empty(0, device="cuda").cpu().tolist() == []
        """
    )


def test_empty_cache_gives_memory_back() -> None:
    run(
        """
        job = zico.torch.enable("256MiB")
        x, kept = torch.zeros(100 * MIB, dtype=torch.uint8, device="cuda"), torch.ones(MIB, device="cuda")
        free = torch.cuda.mem_get_info()[0]
        del x
        torch.cuda.synchronize()
        assert job.pool.stats()["held"] >= 104 * MIB, job.pool.stats()
        torch.cuda.empty_cache()
        assert job.pool.stats()["held"] <= 8 * MIB, job.pool.stats()
        assert torch.cuda.mem_get_info()[0] - free >= 96 * MIB, (torch.cuda.mem_get_info(), free)
        """
    )


def test_pools_and_graphs_are_refused_and_all_goes_on() -> None:
    run(
        """
        zico.torch.enable("256MiB")
        x, here = torch.ones(1000, device="cuda"), torch.cuda.current_stream()
        def refused(act):
            try: act()
            except RuntimeError as error: assert "CUDA graphs and torch.cuda.MemPool" in str(error), error
            else: raise SystemExit("not refused")
            assert torch.cuda.current_stream() == here
            assert torch.zeros(1000, device="cuda").shape == (1000,)
        def capture():
            with torch.cuda.graph(torch.cuda.CUDAGraph()): x * 2
        refused(capture)
        # Below PyTorch's Python, as a compiler does it.
        side = torch.cuda.Stream()
        def begin():
            with torch.cuda.stream(side): torch.cuda.CUDAGraph().capture_begin()
        refused(begin)
        refused(lambda: torch.cuda.make_graphed_callables(nn.Linear(4, 4).cuda(), (torch.ones(4, 4, device="cuda"),)))
        refused(torch.cuda.MemPool)
        refused(lambda: torch._C._cuda_beginAllocateCurrentThreadToPool(0, (0, 1)))
        for unknown in (torch.cuda.memory_snapshot, torch.cuda.memory._record_memory_history):
            try: unknown()
            except RuntimeError: pass
            else: raise SystemExit("PyTorch can do it by now: the documentation says that it cannot")
        gc.collect()
        torch.cuda.synchronize()
        """
    )


def test_it_is_too_late_when_memory_is_in_use() -> None:
    out = run(
        """
        torch.ones(10, device="cuda")
        for _ in range(2):
            try: zico.torch.enable("64MiB")
            except RuntimeError as error: print(error)
            assert not zico.torch.is_enabled()
        assert torch.cuda.memory_allocated() == 0 and torch.cuda.max_memory_allocated() == 512
        """
    )
    assert len(out.splitlines()) == 2 and "already initialized" in out, out


@pytest.mark.skipif(not IN_SOFTWARE, reason="two devices are needed")
def test_another_device_has_no_memory() -> None:
    run(
        """
        zico.torch.enable("64MiB", device="cuda:1")
        x = torch.ones(1000, device="cuda:1")
        try: torch.ones(1000, device="cuda:0")
        except RuntimeError as error: assert "memory of cuda:1, not of cuda:0" in str(error), error
        else: raise SystemExit("not refused")
        assert torch.cuda.memory_allocated(1) == 4096 and torch.cuda.memory_allocated(0) == 0
        """,
        ZICO_DRIVER_DEVICES=2,
    )


def test_the_profiler_sees_the_memory() -> None:
    run(
        """
        from torch.profiler import ProfilerActivity, profile
        zico.torch.enable("256MiB")
        x = torch.empty(1, device="cuda")
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            y = torch.empty(MIB, device="cuda")
            del y
        events = [e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]"]
        assert [e.nbytes() for e in events if abs(e.nbytes()) >= MIB] == [4 * MIB, -4 * MIB], events
        """
    )
