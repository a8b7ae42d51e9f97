"""A help desk: one agent talks to customers, and specialists behind it do the work."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from stage import Stage, play  # noqa: E402  from the folder above

DESK = "terminal:desk"


def act(stage: Stage) -> None:
    stage.title("Ann does not say what it is about: the desk answers itself")
    stage.say("Hello?", "desk", sender="ann")
    stage.wait_for_answer(DESK, "what is it about")

    stage.title("A question about money goes to billing, and its result comes back to Ann")
    stage.say("I paid my invoice twice. Do I get a refund?", "desk", sender="ann")
    stage.wait_for_answer(DESK, "30.00 go back on Friday")

    stage.title("The network agent fails: the desk gets that as the result, and Ann gets an answer")
    stage.say("My internet is offline.", "desk", sender="ann")
    stage.wait_for_answer(DESK, "will write back")
    stage.note(f"{len(stage.list_said(DESK))} messages to Ann")


if __name__ == "__main__":
    play(HERE, act)
