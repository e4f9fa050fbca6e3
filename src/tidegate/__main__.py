"""The command ``tidegate``, also as ``python -m tidegate``."""

from __future__ import annotations

import signal


def start() -> None:
    """Run the command; Ctrl-C while its modules are loaded ends it without a stack trace."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tidegate.cli import main

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


if __name__ == "__main__":
    start()
