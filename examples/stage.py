"""Plays an example: a gateway with a home of its own that is removed at the end, and people who talk to its agents.

Everything goes through the `gatepost` command, as you would type it. Nothing leaves this machine. An example with a
`model.json` has a model's endpoint on loopback that says what stands there (docs/extend/models.md).
"""

import asyncio
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gatepost.cli.operation_command import call_operation
from gatepost.core.home import Home
from gatepost.serve.control.arguments.ledger import ListLedgerArgs
from gatepost.store.money.ledger import LedgerLine
from gatepost_testing.daemon import READY, DaemonProcess
from gatepost_testing.model_script import load_script
from gatepost_testing.models import ModelEndpoint

PATIENCE_S = 120.0
PAUSE_S = 0.1  # between two looks at the ledger
NEWEST_ROWS = 500


class ExampleFailed(Exception):
    """Something did not happen that the example is about."""


class Stage:
    """A running gateway, and what was shown of its rooms so far."""

    def __init__(self, folder: Path, home: Path, **settings: str) -> None:
        self.folder, self.home = folder, home
        self.daemon = DaemonProcess(home, **settings)
        self._shown: set[int] = set()

    @property
    def url(self) -> str:
        """Where platforms reach the gateway."""
        return self.daemon.banner[0].removeprefix(READY).partition("#")[0].rstrip("/")

    def title(self, text: str) -> None:
        print(f"\n== {text}", flush=True)

    def note(self, text: str) -> None:
        print(f"   ({text})", flush=True)

    def gatepost(self, *words: str, shown: bool = True) -> str:
        """A command that must succeed; what it prints."""
        if shown:
            print(f"$ gatepost {shlex.join(words)}", flush=True)
        done = self.daemon.gatepost(*words)
        if done.returncode != 0:
            raise ExampleFailed(f"gatepost {shlex.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def run_setup(self) -> None:
        """The commands of setup.sh, one a line."""
        for line in (self.folder / "setup.sh").read_text(encoding="utf-8").splitlines():
            if line.startswith("gatepost "):
                self.gatepost(*shlex.split(line)[1:])

    def say(self, text: str, room: str, *, sender: str = "", thread: str = "") -> int:
        """Somebody writes in a terminal room; the number of the message in the ledger."""
        print(f"{sender or 'owner'} in {room}: {text}", flush=True)
        words = ["chat", "-m", text, "--room", room]
        words += ["--as", sender] if sender else []
        words += ["--thread", thread] if thread else []
        return int(self.daemon.json(*words)["message"])

    def list_rows(self) -> list[LedgerLine]:
        """The ledger, oldest first: what `gatepost ledger list` prints, without a process for each look."""
        return call_operation(Home(self.home), ListLedgerArgs, {"limit": NEWEST_ROWS})

    def wait_for_answer(self, address: str, text: str = "") -> str:
        """The next thing that is said in a room, and has `text` in it. It is printed, and so is what came before it."""
        found: list[str] = []

        def look() -> bool:
            for row in self.list_rows():
                if row.direction != "out" or row.address != address or row.id in self._shown:
                    continue
                if row.state != "sent":
                    continue
                self._shown.add(row.id)
                print(_render_answer(address, row.text), flush=True)
                if text in row.text:
                    found.append(row.text)
                    return True
            return False

        self.wait_until(look, f"an answer in {address}" + (f" with {text!r}" if text else ""))
        return found[0]

    def list_said(self, address: str) -> list[str]:
        """Everything that agents said in a room."""
        return [row.text for row in self.list_rows() if row.direction == "out" and row.address == address]

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        bound = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > bound:
                raise ExampleFailed(f"waited in vain for {what}. The ledger:\n{self.gatepost('ledger', 'list')}")
            time.sleep(PAUSE_S)

    def check_ledger(self) -> None:
        """Nothing may be lost: the gateway counts."""
        print(self.gatepost("ledger", "check").splitlines()[0], flush=True)


def _render_answer(address: str, text: str) -> str:
    lines = text.splitlines() or [""]
    head = f"agent in {address.partition(':')[2]}: "
    return "\n".join([head + lines[0], *(f"    {line}" for line in lines[1:])])


@contextmanager
def serve_model(folder: Path) -> Iterator[dict[str, str]]:
    """The model of an example, and the settings that lead to it; none if the example needs no model."""
    if not (folder / "model.json").exists():
        yield {}
        return
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    endpoint = ModelEndpoint(load_script(folder / "model.json"))
    asyncio.run_coroutine_threadsafe(endpoint.__aenter__(), loop).result(PATIENCE_S)
    try:
        yield {"openai_base_url": endpoint.openai}
    finally:
        asyncio.run_coroutine_threadsafe(endpoint.__aexit__(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


@contextmanager
def open_stage(folder: Path, more_settings: str = "") -> Iterator[Stage]:
    """A home with the files of an example, and its gateway, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="gatepost-example-") as temporary, serve_model(folder) as settings:
        home = Path(temporary) / "home"
        home.mkdir(mode=0o700)
        for file in folder.glob("*.toml"):
            shutil.copy(file, home)
        with (home / "gatepost.toml").open("a", encoding="utf-8") as settings_file:
            settings_file.write(more_settings)
        shutil.copytree(folder / "groups", home / "groups")
        stage = Stage(folder, home, **settings)
        stage.title("Set up: what setup.sh does")
        stage.run_setup()
        with stage.daemon:
            yield stage


def play(folder: Path, act: Callable[[Stage], None], more_settings: str = "") -> None:
    """Run an example and end the process: 0 if everything happened that should. `more_settings`: lines that only the
    play needs, behind those of gatepost.toml."""
    try:
        with open_stage(folder, more_settings) as stage:
            act(stage)
            stage.title("The end")
            stage.check_ledger()
    except ExampleFailed as error:
        print(f"failed: {error}", file=sys.stderr)
        sys.exit(1)
