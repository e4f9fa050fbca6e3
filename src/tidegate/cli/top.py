"""``tidegate top``: shows running transforms in the terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidegate.monitor.watch import Watch

_NEXT, _PREVIOUS, _QUIT = ("\t", "j", "n"), ("k", "p"), ("q", "\x04")


@click.command()
@click.argument("checkpoints", metavar="CHECKPOINT..", nargs=-1, required=True)
@click.option("--once", is_flag=True, help="Print the screen once, and end.")
@click.option("--transform", metavar="NAME", help="Show this transform in detail.")
def top(checkpoints: tuple[str, ...], once: bool, transform: str | None) -> None:
    """Show the transforms of CHECKPOINT folders in the terminal, live, until q or Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    from tidegate.cli.watching import remote_readers, tell_of_missing
    from tidegate.monitor.top import Top
    from tidegate.monitor.watch import Watch

    tell_of_missing(checkpoints)
    watch = Watch(checkpoints, remote_readers)
    console = Console()
    watch.look()
    chosen = _Chosen(watch, transform)
    if once or not console.is_terminal:
        watch.ask(chosen.id or "")
        watch.read()
        console.print(Top(watch.followers, chosen.id))
        return

    def screen() -> Top:
        watch.ask(chosen.id or "")
        return Top(watch.followers, chosen.id)

    watch.start()
    try:
        with (
            _keys(chosen),
            Live(get_renderable=screen, console=console, screen=True, refresh_per_second=2),
        ):
            while not chosen.quits.wait(0.5):
                pass
    except KeyboardInterrupt:
        pass
    finally:
        watch.stop()


class _Chosen:
    """Which transform is shown in detail; keys change it."""

    def __init__(self, watch: Watch, name: str | None) -> None:
        self._watch = watch
        self._name = name
        self.quits = threading.Event()
        if name is not None and watch.followers and name not in watch.followers:
            raise click.UsageError(
                f"There is no transform {name}, but {', '.join(watch.followers)}."
            )

    @property
    def id(self) -> str | None:
        """Its id, None before one has begun."""
        ids = list(self._watch.followers)
        return self._name if self._name in ids else next(iter(ids), None)

    def take(self, key: str) -> None:
        """Do what a key asks for."""
        ids = list(self._watch.followers)
        if key in _QUIT:
            self.quits.set()
        elif ids and self.id is not None and key in (*_NEXT, *_PREVIOUS):
            step = 1 if key in _NEXT else -1
            self._name = ids[(ids.index(self.id) + step) % len(ids)]


@contextmanager
def _keys(chosen: _Chosen) -> Iterator[None]:
    """Take keys while the screen is shown, where the terminal gives single ones."""
    try:
        import termios
        import tty

        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
    except Exception:  # no such module, no terminal (termios.error), a closed stream
        yield
        return

    def listen() -> None:
        while not chosen.quits.is_set():
            key = sys.stdin.read(1)
            if not key:
                return
            chosen.take(key)

    tty.setcbreak(number)
    threading.Thread(target=listen, name="tidegate-top-keys", daemon=True).start()
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
