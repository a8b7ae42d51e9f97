"""Arguments that a person puts in place of those that were asked for: what is taken, and what is refused."""

import json
from typing import Any

import pytest

from gatepost.core.errors import Invalid
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.flow.requests.edited_input import (
    LONGEST,
    LONGEST_NAME,
    MOST_NAMED,
    check_edited,
    describe_edit,
    is_editable,
    parse_edited,
)
from gatepost.store.rights.requests import AnswerLasts, Request, RequestAsker, RequestKind, RequestState
from gatepost_testing.clock import NOON

load_package("gatepost.tools")
ONCE = AnswerLasts.ONCE
ROOM = "fake:room/1"


def make_request(**more: Any) -> Request:
    fields: dict[str, Any] = {
        "id": "p-1", "kind": RequestKind.CALL, "folder": "acme", "session_id": "s", "turn_id": "t", "name": "n",
        "digest": "", "about": "", "tool": "send", "input": {"text": "original"}, "cut": False, "follow_up": "",
        "next_mode": "", "instance": "", "address": "", "thread": "", "rights": "member", "why": "", "rule": "",
        "rooms": {}, "state": RequestState.PENDING, "answer": {}, "lasts": ONCE, "reason": "", "quorum": 1,
        "asked_at": NOON, "expires_at": None, "next_at": None, "answered_at": None, "answered_by": "",
        "settled_at": None, "notified_at": None, "asker": RequestAsker.AGENT, "editable": True,
    }  # fmt: skip
    return Request(**(fields | more))


def refuse(request: Request, given: dict[str, Any], lasts: AnswerLasts = ONCE) -> str:
    with pytest.raises(Invalid) as refused:
        check_edited(request, given, lasts)
    assert "input" in str(refused.value)
    return str(refused.value)


def test_an_object_is_read() -> None:
    assert parse_edited('{"text": "hello", "n": [1, {"a": null}]}') == {"text": "hello", "n": [1, {"a": None}]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hello", "one JSON object"),
        ('["a"]', "one JSON object"),
        ("{}", "leave it out"),
        ("{" + '"a":' * 3, "one JSON object"),
        (json.dumps({"text": "x" * LONGEST}), "20000 bytes at most"),
        (json.dumps({"text": "\u00e9" * (LONGEST // 2)}, ensure_ascii=False), "20000 bytes at most"),
        ('{"a": [' + "[]," * 6_000 + "0]}", "bytes at most"),  # few bytes, and many values to be made of them
        ('{"a":' + "[" * 5_000 + "]" * 5_000 + "}", "input"),
    ],
)
def test_what_is_no_small_object_is_refused(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        parse_edited(text)


def test_as_many_bytes_as_may_be_are_read() -> None:
    given = {"a": "x" * (LONGEST - len('{"a":""}'))}
    text = json.dumps(given, separators=(",", ":"))
    assert len(text) == LONGEST
    assert parse_edited(text) == given


def test_half_a_character_does_not_break_the_reader() -> None:
    assert parse_edited('{"text": "a\ud800"}') == {"text": "a?"}


@pytest.mark.parametrize("given", [{}, {"text": "original"}])
def test_arguments_that_stay_are_no_edit_however_long_the_answer_lasts(given: dict[str, Any]) -> None:
    request = make_request(editable=False, cut=True, quorum=3)
    assert check_edited(request, given, AnswerLasts.ALWAYS) == {}


def test_other_arguments_are_taken_for_one_call() -> None:
    assert check_edited(make_request(), {"text": "better"}, ONCE) == {"text": "better"}


def test_other_arguments_are_not_taken_for_longer() -> None:
    for lasts in (AnswerLasts.SESSION, AnswerLasts.ALWAYS):
        assert "allowed once, and no longer" in refuse(make_request(), {"text": "better"}, lasts)


def test_nobody_edits_what_is_shown_in_part_or_what_several_agree_to() -> None:
    """An edit is of one person, and of what they have seen."""
    assert "only an excerpt is shown" in refuse(make_request(cut=True), {"text": "better"})
    assert "cannot be edited" in refuse(make_request(editable=False), {"text": "better"})
    assert "2 people must agree" in refuse(make_request(quorum=2), {"text": "better"})


@pytest.mark.parametrize(
    ("more", "editable"),
    [
        ({}, True),
        ({"kind": RequestKind.TOOL}, True),
        ({"kind": RequestKind.PLAN}, False),
        ({"kind": RequestKind.SENDER}, False),
        ({"input": {}}, False),
        ({"editable": False}, False),
        ({"cut": True}, False),
        ({"quorum": 2}, False),
    ],
)
def test_a_form_is_offered_only_where_an_edit_would_be_taken(more: dict[str, Any], editable: bool) -> None:
    assert is_editable(make_request(**more)) is editable


def test_a_room_that_an_edit_leaves_out_is_the_one_on_the_card() -> None:
    """Left out, the tool would take the room of whatever turn runs then."""
    shown = {"text": "original", "chatJid": ROOM}
    request = make_request(input=shown, rooms={"chatJid": "fake"})
    assert check_edited(request, {"text": "better"}, ONCE) == {"text": "better", "chatJid": ROOM}
    assert check_edited(request, {"text": "better", "chatJid": None}, ONCE)["chatJid"] == ROOM
    assert check_edited(request, {"text": "original"}, ONCE) == {}  # which is no edit then
    other = {"text": "better", "chatJid": "fake:room/2"}
    assert check_edited(request, other, ONCE) == other


def test_what_a_room_adds_counts_against_the_limit() -> None:
    request = make_request(input={"text": "original", "chatJid": ROOM}, rooms={"chatJid": "fake"})
    assert "bytes at most" in refuse(request, {"text": "x" * (LONGEST - 20)})


@pytest.mark.parametrize("kind", [RequestKind.QUESTION, RequestKind.ROOM])
def test_an_answer_is_no_edit(kind: RequestKind) -> None:
    request = make_request(kind=kind, editable=False, quorum=2)
    assert check_edited(request, {"group": "acme"}, AnswerLasts.ALWAYS) == {"group": "acme"}


def test_a_call_that_its_tool_would_refuse_does_not_use_the_request_up() -> None:
    request = make_request(input={"chatJid": ROOM, "text": "original"})
    assert "does not fit send" in refuse(request, {"chatJid": ROOM, "text": 7})
    of_provider = replace(request, kind=RequestKind.TOOL)  # its own tool of that name is not ours
    assert check_edited(of_provider, {"text": 7}, ONCE) == {"text": 7}


def test_a_connector_judges_its_calls_itself() -> None:
    assert check_edited(make_request(tool="github__nothing"), {"text": 7}, ONCE) == {"text": 7}


def test_the_audit_names_what_changed_and_none_of_its_words() -> None:
    request = make_request(input={"a": 1, "same": 2, "gone": 3}, answer={"a": "secret words", "same": 2, "new": None})
    found = describe_edit(request)
    assert found["changed"] == ["a", "gone", "new"]
    assert "secret" not in str(found) and len(found["digest"]) == 64


def test_the_digest_is_of_the_arguments_and_not_of_their_order() -> None:
    one, other = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert describe_edit(make_request(answer=one))["digest"] == describe_edit(make_request(answer=other))["digest"]
    assert (
        describe_edit(make_request(answer={"a": 1, "b": 3}))["digest"]
        != describe_edit(make_request(answer=one))["digest"]
    )


def test_names_in_the_audit_are_few_and_short() -> None:
    given = {f"{number:03}{'x' * 200}\n": 1 for number in range(MOST_NAMED + 5)}
    found = describe_edit(make_request(input={}, answer=given))["changed"]
    assert len(found) == MOST_NAMED
    assert all(len(each) <= LONGEST_NAME and "\n" not in each for each in found)
