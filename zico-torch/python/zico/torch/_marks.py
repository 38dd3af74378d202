"""Where iterations end, seen from outside of the script.

A step of an optimizer ends an iteration; the next one begins with the first allocation after it, in zico. Between
the two a loop frees what is left: its gradients, and what a name still refers to. The first iteration begins with the
first forward of a module: what was allocated before it is there to stay, parameters above all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from zico._native import native


class Marks:
    """The hooks, and how to take them away."""

    def __init__(self) -> None:
        self._mark = native().library.zico_mark_current
        self._step: Any = None
        self._forward: Any = None

    def install(self) -> None:
        """Puts the hooks in."""
        # A compiler that traces a step is not to trace into these.
        hide: Any = torch.compiler.disable
        self._step = register_optimizer_step_post_hook(hide(self._stepped))
        self._forward = register_module_forward_pre_hook(hide(self._began))

    def remove(self) -> None:
        """Takes the hooks out."""
        for handle in (self._step, self._forward):
            if handle is not None:
                handle.remove()
        self._step = self._forward = None

    def _stepped(self, *_: object) -> None:
        # In a forked child it is refused, and there is nothing to mark.
        self._mark()
        self._forget_forward()

    def _began(self, *_: object) -> None:
        if self._forward is not None:
            self._forget_forward()
            self._mark()

    def _forget_forward(self) -> None:
        if self._forward is not None:
            self._forward.remove()
            self._forward = None
