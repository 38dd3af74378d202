"""What ``zico run`` does in the processes that it starts, by ``zico.pth``.

Imported when Python starts, if ``ZICO_RUN`` is set: puts a finder in the way of ``import torch`` that enables zico right
after it. A process that does not import torch has nothing of it but that finder.

Settings are in the environment, so that children have them as well: ``ZICO_BUDGET`` or ``ZICO_SOCKET``, ``ZICO_DEVICE``, ``ZICO_JOB_NAME``,
``ZICO_PRIORITY``, ``ZICO_THRESHOLD``; ``ZICO_STATS`` names a file to which the statistics are written at the end.
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
            threshold=int(environment("ZICO_THRESHOLD", str(zico.torch.THRESHOLD))),
        )
    except Exception as error:
        raise SystemExit(f"zico: this process cannot use zico: {error}") from error
    path = environment("ZICO_STATS")
    if path:
        import atexit

        atexit.register(_write_stats, path)


def _write_stats(path: str) -> None:
    import json

    import zico
    from zico._native import native

    if not native().is_forked:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(zico.stats(), file)


if os.environ.get("ZICO_RUN") and "torch" not in sys.modules:
    sys.meta_path.insert(0, _Finder())
