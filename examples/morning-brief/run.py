"""A scheduled summary: it is silent while nothing happens. A few seconds stand for a day here."""

import os
import sys
from pathlib import Path

from gatepost.store.money.ledger import LedgerLine

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from stage import Stage, play  # noqa: E402  from the folder above

ROOM = "terminal:morning"


def list_silent_runs(stage: Stage) -> list[LedgerLine]:
    """Those that are over, oldest first."""
    return [row for row in stage.list_rows() if row.event == "task" and row.state == "silent"]


def wait_for_silent_run(stage: Stage) -> None:
    """One that ends after now, without a word."""
    before = len(list_silent_runs(stage))
    stage.wait_until(lambda: len(list_silent_runs(stage)) > before, "a run of the task that says nothing")
    stage.note("a morning passed; nothing was new, and nothing was said")


def put_into_inbox(stage: Stage, name: str, text: str) -> None:
    """As a program would: it is there at once, and whole."""
    print(f"{name} arrives: {text}", flush=True)
    folder = stage.home / "groups" / "brief" / "inbox"
    (folder / f".{name}").write_text(text + "\n", encoding="utf-8")
    os.replace(folder / f".{name}", folder / name)


def act(stage: Stage) -> None:
    stage.title("The owner asks for a brief")
    stage.say("Brief me every 3s", "morning")
    stage.wait_for_answer(ROOM, "only if there is something")

    stage.title("Nothing is new")
    wait_for_silent_run(stage)

    stage.title("Something arrives, and the next brief tells it")
    put_into_inbox(stage, "mail-1.txt", "Bob asks whether Friday suits you")
    stage.wait_for_answer(ROOM, "Bob asks whether Friday suits you")

    stage.title("The morning after: nothing new again, and nothing told twice")
    wait_for_silent_run(stage)

    stage.title("The log of the task")
    print(stage.gatepost("task", "show", stage.daemon.json("task", "list", "brief")[0]["id"]), flush=True)

    stage.title("Enough")
    stage.say("No more briefs, please", "morning")
    stage.wait_for_answer(ROOM, "no more")


if __name__ == "__main__":
    play(HERE, act)
