"""Every button and form of every page is pressed in a browser by a test that looks at what came of it."""

from tests.page_actions import list_actions, list_pressed, read_actions

SOURCE = """
NEW = Action(label="New", operation="thing.add", asks=True)

def list_row_actions(row):
    label = "On" if row["off"] else "Off"
    return (Action(label=label, operation="thing.turn"), Action(label=row["name"], operation=row["operation"]))

FORM = FormBlock(label="Save", operation="thing.write", inputs=[])
SEARCH = FormBlock(label="Search", inputs=[])
STEPS = (FormStep(operation="thing.check", label="Look"),)
SCRIPT = ScriptForm(script="thing.js", submit="Touch it", inputs=[])
TABLE = make_table(found, FIELDS, EMPTY, moves="thing.move")
"""


def test_the_actions_of_a_page_are_read_from_its_source() -> None:
    assert {*read_actions(SOURCE)} == {
        "thing.add: New",
        "thing.turn: On",
        "thing.turn: Off",
        "*: *",
        "thing.write: Save",
        "thing.check: Look",
        "thing.js: Touch it",
        "thing.move: drag",
    }


def test_every_action_of_every_page_has_a_browser_test() -> None:
    missing = sorted(list_actions() - list_pressed().keys())
    assert not missing, "press it in a test with @pytest.mark.page(page, action), and look at the effect"


def test_no_test_declares_an_action_that_no_page_has() -> None:
    assert not sorted(list_pressed().keys() - list_actions())
