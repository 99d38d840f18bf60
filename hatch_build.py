"""Put compiled kernels into a wheel if HINGED_COMPILED names their folder, as `make wheel` does."""

import os
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Kernels(BuildHookInterface):  # type: ignore[type-arg]
    """The build hook for kernels. A wheel without kernels runs on every platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Add the kernels, and tag the wheel with their Python version and machine."""
        folder = os.environ.get("HINGED_COMPILED")
        if not folder:
            return
        sys.path.insert(0, self.root)
        from hinged.solvers.jit.cache import BROUGHT, STATE, SUFFIX  # noqa: PLC0415  a wheel without kernels needs no numba

        compiled = Path(folder, STATE).absolute()
        if not any(compiled.rglob(f"*{SUFFIX}")):
            raise FileNotFoundError(f"{compiled} has no kernels compiled from these sources")
        build_data["force_include"][str(compiled)] = f"hinged/{BROUGHT.name}/{STATE}"
        build_data["pure_python"] = False
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["tag"] = f"{python}-{python}{getattr(sys, 'abiflags', '')}-{_machine()}"


def _machine() -> str:
    """The platform tag of the kernels, which need the same version of the C library as numba."""
    if sys.platform == "linux":
        return f"manylinux_2_17_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
