"""Prometheus's ``promtool``: that of this machine, or the one in Debian's package, fetched once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from systems.parts import CACHE

KEPT = CACHE / "promtool"


def promtool() -> str:
    """Return the program; the package is unpacked, not installed, so no service starts."""
    found = shutil.which("promtool")
    if found:
        return found
    if not KEPT.exists():
        assert shutil.which("apt-get"), "these tests need promtool, a part of Prometheus"
        CACHE.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=CACHE) as folder:
            subprocess.run(["apt-get", "download", "-q", "prometheus"], cwd=folder, check=True)
            (package,) = Path(folder).glob("*.deb")
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
            Path(folder, "usr", "bin", "promtool").replace(KEPT)
    return str(KEPT)
