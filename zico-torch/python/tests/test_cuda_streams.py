"""Streams and threads: zico's memory is used again only after the work that uses it. What is compared is copied, not
computed, so all of this holds on the runtime in software too."""

from __future__ import annotations

from gpu import IN_SOFTWARE, needs_cuda, run

pytestmark = needs_cuda

#: Work that keeps a stream busy for some tens of milliseconds.
BUSY = """
def busy(stream):
    with torch.cuda.stream(stream):
        if {software}:
            for _ in range(300): small.add_(1)
        else:
            torch.cuda._sleep(100_000_000)
"""


def streams(code: str) -> None:
    """Runs a script that has `busy`, `small`, and `pattern`, which makes a tensor on the host from a number."""
    import textwrap

    head = """
zico.torch.enable("256MiB")
small = torch.zeros(10, device="cuda")
def pattern(seed, size=MIB): return torch.arange(seed, seed + size, dtype=torch.int32)
here, side = torch.cuda.current_stream(), torch.cuda.Stream()
"""
    run(BUSY.format(software=IN_SOFTWARE) + head + textwrap.dedent(code))


def test_record_stream_is_heeded() -> None:
    """Without it the memory is another tensor's before the other stream has read it."""
    streams(
        """
        for turn in range(5):
            x = pattern(turn).cuda()
            side.wait_stream(here)
            busy(side)
            with torch.cuda.stream(side):
                read = torch.empty(MIB, dtype=torch.int32, pin_memory=True)
                read.copy_(x, non_blocking=True)
            x.record_stream(side)
            at = x.data_ptr()
            del x
            assert not side.query(), "the stream was not busy: nothing is shown"
            others = [pattern(-1 - turn).cuda() for _ in range(3)]
            here.synchronize()
            side.synchronize()
            assert torch.equal(read, pattern(turn)), turn
            del others
        """
    )


def test_a_block_of_another_stream_is_ready_there_and_used_again_after_it() -> None:
    streams(
        """
        first = pattern(7).pin_memory()
        for turn in range(5):
            # Memory that the default stream has yet to be done with ...
            old = torch.empty(MIB, dtype=torch.int32, device="cuda")
            busy(here)
            old.copy_(first, non_blocking=True)
            del old
            with torch.cuda.stream(side):
                # ... is another stream's now,
                new = torch.empty(MIB, dtype=torch.int32, device="cuda")
                new.copy_(pattern(turn).pin_memory(), non_blocking=True)
                here.synchronize()
                busy(side)
                read = new.to("cpu", non_blocking=True)
                # and again somebody else's before that is done with it.
                del new
            others = [pattern(-1).cuda() for _ in range(3)]
            side.synchronize()
            assert torch.equal(read, pattern(turn)), (turn, read)
        """
    )


def test_tensors_are_freed_on_any_thread() -> None:
    streams(
        """
        shelf, lock, wrong = [], threading.Lock(), []
        def work(seed):
            stream = torch.cuda.Stream() if seed % 2 else torch.cuda.default_stream()
            with torch.cuda.stream(stream):
                for turn in range(30):
                    value = seed * 100_000 + turn
                    tensor = pattern(value, 1 << 16).cuda()
                    stream.synchronize()
                    with lock: shelf.append((value, tensor))
                    del tensor
                    with lock: value, other = shelf.pop(0)
                    other.record_stream(stream)
                    if not torch.equal(other.cpu(), pattern(value, 1 << 16)): wrong.append(value)
                    del other
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert not wrong, wrong
        del small
        torch.cuda.synchronize()
        assert zico.stats()["requested"] == 0, zico.stats()
        """
    )


def test_copies_keep_their_values_among_other_jobs() -> None:
    """Three jobs of one process, each on its stream, in a budget that is not enough for all at once. What one has freed
    is another's while the copies from it are still to come: in stream order, not in the order of the calls."""
    streams(
        """
        jobs = [zico._job] + [zico._job.pool.join(name) for name in ("b", "c")]
        wrong = []
        def work(seed, job):
            stream = torch.cuda.Stream()
            with job.use(), torch.cuda.stream(stream):
                kept = pattern(seed << 20).cuda()
                for turn in range(8):
                    values = [(seed << 20) + turn * 100 + i for i in range(7)]
                    with job.iteration():
                        # 112 MiB each, of 256 in all
                        wave = [pattern(value, 4 * MIB).cuda() for value in values]
                        busy(stream)
                        read = [x.to("cpu", non_blocking=True) for x in wave]
                        del wave
                    stream.synchronize()
                    wrong.extend(v for v, x in zip(values, read) if not torch.equal(x, pattern(v, 4 * MIB)))
                if not torch.equal(kept.cpu(), pattern(seed << 20)): wrong.append((seed, "kept"))
        threads = [threading.Thread(target=work, args=case) for case in enumerate(jobs)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert not wrong, wrong
        stats = [job.stats() for job in jobs]
        assert sum(s["reserved_peak"] for s in stats) > 256 * MIB, stats
        assert sum(s["waited_to_begin"] + s["waited_for_memory"] for s in stats) > 0, stats
        """
    )
