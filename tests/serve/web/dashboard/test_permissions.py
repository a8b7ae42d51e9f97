"""Sentences on what an agent may do, with the rules of the agent and of those above it."""

from gatepost.access.grants import parse
from gatepost.access.subjects import Subject
from gatepost.serve.control.arguments.access import VisibleTool
from gatepost.serve.web.dashboard.permissions import (
    ACTS,
    SENTENCES,
    make_choice,
    make_place_choices,
    make_sentence_form,
    render_exception,
)
from gatepost.serve.web.dashboard.view import Choice

SEND = VisibleTool(name="send", group="messages", effects=[Subject.SPEAK], summary="", held=[])


def choose(
    *rules: str,
    above: dict[str, list[str]] | None = None,
    tools: tuple[VisibleTool, ...] = (SEND,),
    writes: bool = True,
) -> Choice:
    inherited = {folder: [parse(each) for each in texts] for folder, texts in (above or {}).items()}
    return make_choice("acme/eng", Subject.SPEAK, [parse(each) for each in rules], inherited, tools, writes=writes)


def test_every_kind_of_effect_has_a_sentence() -> None:
    assert {*SENTENCES} == {*Subject} == {*ACTS}


def test_what_holds_is_marked_and_each_other_answer_is_a_button() -> None:
    found = choose("hold speak")
    assert [(each.label, each.is_chosen) for each in found.options] == [("Yes", False), ("Ask me", True), ("No", False)]
    assert [each.action and each.action.args["permission"] for each in found.options] == ["yes", None, "no"]
    assert found.note == ""


def test_whoever_may_not_change_it_sees_the_answer_alone() -> None:
    found = choose("!speak", writes=False)
    assert [each.is_chosen for each in found.options] == [False, False, True]
    assert not [each for each in found.options if each.action]


def test_a_stricter_answer_above_and_a_place_without_such_tools_are_said() -> None:
    assert choose(above={"acme": ["!speak"]}).note == "acme says “no” for all below it."
    assert choose("!speak", above={"acme": ["hold speak"]}).note == ""
    assert choose(tools=()).note == "At its place in the tree it has no tool for this."


def test_exceptions_are_said_in_words_and_no_more_than_three() -> None:
    assert choose("hold send").note == "But: asks first, send."
    many = choose("!send", "hold send", "send", "speak(jid=web:*)").note
    assert many == "But: never send, asks first, send, freely send and 1 more."
    assert render_exception(parse("!speak(jid=discord:*)")) == "never in some rooms"


def test_an_answer_for_one_room_is_a_sentence_with_its_name() -> None:
    rules = [parse(each) for each in ("hold speak(jid=web:1)", "!hand_out(jid=web:2)", "speak(jid=web:*)")]
    found = make_place_choices("acme", rules, {"web:1": "General"}, writes=True)
    assert {each.sentence for each in found} == {"Writes by itself: General", "Sends files out: web:2"}
    [general] = [each for each in found if "General" in each.sentence]
    assert [each.is_chosen for each in general.options] == [False, True, False]
    assert general.options[2].action is not None and general.options[2].action.args["room"] == "web:1"
    assert choose("hold speak(jid=web:1)").note == ""  # it is said there


def test_a_sentence_is_built_from_words_alone() -> None:
    form = make_sentence_form("acme", {"web:1": "General"})
    assert [each.shown for each in form.inputs][1:] == [("anyone, anywhere", "General"), ("ask me", "no", "yes")]
    assert not [word for each in form.inputs for word in each.shown if "_" in word]
