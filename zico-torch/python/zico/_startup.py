"""What ``zico run`` does in the processes that it starts, by ``zico.pth``.

Imported when Python starts, if ``ZICO_RUN`` is set: puts a finder in the way of ``import torch`` that enables zico right
after it. A process that does not import torch has nothing of it but that finder.

Settings are in the environment, so that children have them as well: ``ZICO_BUDGET`` or ``ZICO_SOCKET``, ``ZICO_DEVICE``, ``ZICO_JOB_NAME``,
``ZICO_PRIORITY``, ``ZICO_TIME_SLICE``, ``ZICO_INTERRUPTIBLE``, ``ZICO_THRESHOLD``; ``ZICO_STATS`` names a file to which the statistics are written at the end, ``ZICO_RECORD`` one for a
trace of the run.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType


class _Loader(importlib.abc.Loader):
    """torch's own loader, and zico after it."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        # Nobody who asks torch for its loader later meets this one.
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _enable()


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def _enable() -> None:
    """Enables zico, or ends the process and says why: a job without zico would take memory that others count on."""
    environment = os.environ.get
    try:
        import zico.torch

        zico.torch.enable(
            environment("ZICO_BUDGET"),
            socket=environment("ZICO_SOCKET"),
            device=environment("ZICO_DEVICE"),
            name=environment("ZICO_JOB_NAME"),
            priority=int(environment("ZICO_PRIORITY", "0")),
            time_slice=environment("ZICO_TIME_SLICE"),
            interruptible=environment("ZICO_INTERRUPTIBLE") == "1",
            threshold=int(environment("ZICO_THRESHOLD", str(zico.torch.THRESHOLD))),
        )
    except Exception as error:
        raise SystemExit(f"zico: this process cannot use zico: {error}") from error
    record = environment("ZICO_RECORD")
    if record:
        import atexit

        try:
            atexit.register(_end_recording, _begin_recording(record))
        except Exception as error:
            raise SystemExit(f"zico: {record} cannot be recorded: {error}") from error
    path = environment("ZICO_STATS")
    if path:
        import atexit

        atexit.register(_write_stats, path)


def _begin_recording(path: str) -> str:
    """Records this process's job, and returns where. The first process of a command has the file of this name, and others,
    which are jobs of their own, have their number in theirs."""
    from zico import _current

    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        base, ending = os.path.splitext(path)
        path = f"{base}.{os.getpid()}{ending}"
    _current().record(path, os.environ.get("ZICO_JOB_NAME") or os.path.splitext(os.path.basename(path))[0])
    return path


def _end_recording(path: str) -> None:
    from zico import ZicoError, _broker, _current
    from zico._native import native

    if native().is_forked:
        return
    try:
        _current().end_recording()
    except ZicoError as error:
        _broker.say(f"{path}: {error}")


def _write_stats(path: str) -> None:
    import json

    import zico
    from zico._native import native

    if not native().is_forked:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(zico.stats(), file)


if os.environ.get("ZICO_RUN") and "torch" not in sys.modules:
    sys.meta_path.insert(0, _Finder())
