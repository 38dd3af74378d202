"""Processes that fork: data loaders above all."""

from __future__ import annotations

from collections.abc import Callable

Python = Callable[..., str]


def test_workers_read_the_data_set_of_their_parent(python: Python) -> None:
    python(
        """
        import torch, zico, zico.torch
        from torch.utils.data import DataLoader, Dataset
        zico.torch.enable("512MiB", device="cpu")
        class Rows(Dataset):
            def __init__(self): self.rows = torch.arange(256.0).repeat_interleave(1 << 14).view(256, -1)
            def __len__(self): return 256
            def __getitem__(self, at):
                scratch = torch.full((1 << 18,), float(at))  # larger than the threshold
                return self.rows[at] + 0 * scratch[0], at
        rows = Rows()
        assert zico.stats()["requested"] == 256 << 16
        for epoch in range(2):
            for batch, at in DataLoader(rows, batch_size=32, num_workers=2):
                torch.ones(1 << 20)  # the parent uses its memory meanwhile
                assert (batch == at[:, None]).all(), f"sample {at} is no longer itself"
        assert (rows.rows[:, 0] == torch.arange(256.0)).all()
        """
    )


def test_a_child_has_a_copy_of_its_own(python: Python) -> None:
    out = python(
        """
        import os, torch, zico.torch
        torch.set_num_threads(1)  # OpenMP has no threads in a child
        zico.torch.enable("128MiB", device="cpu")
        ours = torch.arange(1 << 20)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(read, 1)  # by now the parent has changed it
            same = bool((ours == torch.arange(1 << 20)).all())
            ours.fill_(7)
            del ours
            more = torch.full((1 << 20,), 5)
            os._exit(0 if same and int(more.sum()) == 5 << 20 else 1)
        ours.add_(1)
        os.write(write, b"x")
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(ours[3]))
        """
    )
    assert out.split() == ["0", "4"]


def test_children_may_fork_themselves_and_run_programs(python: Python) -> None:
    out = python(
        """
        import os, subprocess, torch, zico.torch
        torch.set_num_threads(1)  # OpenMP has no threads in a child
        zico.torch.enable("128MiB", device="cpu")
        ours = torch.ones(1 << 20)
        def child_of(code):
            child = os.fork()
            if child == 0: os._exit(code())
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        def grandchild(): return int(ours.sum()) != 1 << 20
        def child(): return child_of(grandchild) + (int(ours.sum()) != 1 << 20)
        print(child_of(child), subprocess.run(["echo", "fine"], capture_output=True, text=True).stdout)
        """
    )
    assert out.split() == ["0", "fine"]
