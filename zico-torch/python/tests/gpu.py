"""Where the tests of the CUDA side run: on a GPU, or on the CUDA runtime in software of tests/cuda-runtime.

``ZICO_TEST_CUDA`` says which: "device", or the folder of the runtime. On the runtime nothing is computed: whatever a
kernel writes is what was there before. Copies and fills are done, in the order of the streams, and kernels take time.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import finish, start

WHERE = os.environ.get("ZICO_TEST_CUDA", "")
IN_SOFTWARE = WHERE not in ("", "device")

#: For a module of tests: `pytestmark = needs_cuda`.
needs_cuda = pytest.mark.skipif(
    not WHERE, reason="no CUDA: .ci/torch runs these on a runtime in software, tests/gpu/run torch on a GPU"
)

#: What the scripts of these tests begin with. The runtime in software has no cuDNN.
PRELUDE = """
import gc, sys, threading, torch, zico, zico.torch
import torch.nn as nn
import torch.nn.functional as F
MIB = 1 << 20
torch.backends.cudnn.enabled = {cudnn}
""".format(cudnn=not IN_SOFTWARE)


def environment(memory: int = 2 << 30) -> dict[str, str]:
    """The variables for a process that uses CUDA; the device in software has so much memory."""
    if not IN_SOFTWARE:
        return {}
    found: dict[str, str] = json.loads(Path(WHERE, "environment.json").read_text())
    return found | {"ZICO_DRIVER_MEMORY": str(memory)}


def run(code: str, **variables: object) -> str:
    """Runs a script on CUDA in a process of its own, and returns what it prints."""
    script = PRELUDE + textwrap.dedent(code)
    return finish(start(sys.executable, "-c", script, **(environment() | variables)))
