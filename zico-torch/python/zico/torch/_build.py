"""Builds PyTorch's side of zico, ``shim.cpp``, with the headers of the PyTorch that runs.

Once for each version of PyTorch: what has been built is kept in the user's cache.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

_SOURCE = Path(__file__).with_name("shim.cpp")


class BuildError(RuntimeError):
    """The shim cannot be built."""


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "zico"


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name.split()[0]):
            return name
    raise BuildError(
        "zico needs a C++ compiler once for each version of PyTorch (Debian: apt install g++); "
        "CXX names another than c++, g++ or clang++"
    )


def _options() -> list[str]:
    root = Path(torch.__file__).resolve().parent
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    return [
        "-std=c++20",
        "-O2",
        "-fPIC",
        "-shared",
        # The C++ library is the one that PyTorch has loaded: a second one in the process, as a compiler may link
        # statically, has no locale and its own list of exceptions.
        "-nodefaultlibs",
        f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        f"-I{root / 'include'}",
        f"-L{root / 'lib'}",
        "-lc10",
        "-lc",
        f"-Wl,-rpath,{root / 'lib'}",
    ]


def _name() -> str:
    """A name for what these sources, this PyTorch and these options make."""
    parts = [_SOURCE.read_bytes(), torch.__version__.encode(), " ".join(_options()).encode()]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    return f"shim-torch-{torch.__version__}-{digest}.so"


def shim_path() -> Path:
    """The shim for this PyTorch, built if it is not there. Processes that do so at once do not meet."""
    built = _cache() / _name()
    if built.exists():
        return built
    compiler = _compiler().split()
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as folder:
        fresh = Path(folder) / "shim.so"
        command = [*compiler, str(_SOURCE), *_options(), "-o", str(fresh)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise BuildError(f"{' '.join(command)}\n{done.stderr[-2000:]}")
        os.replace(fresh, built)
    return built


def load_shim(library: Path) -> ctypes.CDLL:
    """The shim, bound to zico's library."""
    shim = ctypes.CDLL(str(shim_path()))
    shim.zico_shim_bind.argtypes, shim.zico_shim_bind.restype = [ctypes.c_char_p], ctypes.c_bool
    shim.zico_shim_host.argtypes, shim.zico_shim_host.restype = [ctypes.c_size_t], None
    shim.zico_shim_cuda_pool.argtypes, shim.zico_shim_cuda_pool.restype = [], ctypes.c_void_p
    shim.zico_shim_cuda_no_pools.argtypes, shim.zico_shim_cuda_no_pools.restype = [], ctypes.c_char_p
    shim.zico_shim_cuda_device.argtypes, shim.zico_shim_cuda_device.restype = [ctypes.c_int], None
    if not shim.zico_shim_bind(str(library).encode()):
        raise BuildError(f"{library} has not the functions that PyTorch's side of zico needs")
    return shim
