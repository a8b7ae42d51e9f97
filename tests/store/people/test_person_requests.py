"""Requests that tell of a person: which they are, and what becomes of them when the person is forgotten."""

from typing import Any

import pytest

from gatepost.store.messages import inbox
from gatepost.store.people import person_requests
from gatepost.store.people.person_requests import LONGEST_EXCERPT, is_named, list_requests, list_undone, remove_requests
from gatepost.store.people.person_scope import FORGOTTEN, PersonScope
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import groups
from gatepost_testing.arrivals import add_arrival

NOON = 1_800_000_000_000_000
HER, ALSO_HER, HIM = "fake:user/9", "chat:user/9", "fake:user/91"
ROOM, OWN_ROOM = ("fake", "fake:room/1"), ("fake", "fake:dm/9")
SCOPE = PersonScope((HER, ALSO_HER), (OWN_ROOM,))


@pytest.fixture(autouse=True)
def acme(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)


def add(
    db: Db, name: str = "n", kind: RequestKind = RequestKind.SENDER, room: tuple[str, str] = ROOM, **more: Any
) -> str:
    fields: dict[str, Any] = {"folder": "acme", "input": {"from": HER}, "instance": room[0], "address": room[1]}
    made, added = requests.add(db, NewRequest(kind=kind, name=name, **(fields | more)), NOON)
    assert added
    return made.id


def answer(db: Db, request_id: str, by: str, reason: str = "", given: str = "{}", notified: int | None = None) -> None:
    db.run(
        "UPDATE requests SET state = 'allowed', answered_by = ?, reason = ?, answer = ?, notified_at = ? WHERE id = ?",
        (by, reason, given, notified, request_id),
    )


def get(db: Db, request_id: str) -> Request:
    found = requests.get(db, request_id)
    assert found is not None
    return found


def list_found(db: Db) -> dict[str, bool]:
    found, _ = list_requests(db, SCOPE, "", 100)
    return {each.id: each.own for each in found}


def test_hers_are_those_about_her_from_her_room_or_decided_by_her(db: Db) -> None:
    own = [add(db, HER), add(db, "x1", about=ALSO_HER), add(db, "x2", room=OWN_ROOM)]
    decided, together = add(db, "x3"), add(db, "x4")
    answer(db, decided, ALSO_HER)
    answer(db, together, request_cards.join_voters([HIM, HER]))
    others = [add(db, HIM), add(db, "x5"), add(db, "x6", about=HER + "1")]
    answer(db, others[1], HIM)
    assert list_found(db) == {**dict.fromkeys(own, True), decided: False, together: False}


def test_a_part_of_a_question_that_she_answered_is_hers_too(db: Db) -> None:
    question, call = add(db, "q", RequestKind.QUESTION), add(db, "c", RequestKind.CALL)
    for each in (question, call):
        request_cards.add_vote(db, each, HER, NOON)
    assert list_found(db) == {question: False}  # a vote that is not counted yet decides nothing


def test_they_are_listed_by_pages(db: Db) -> None:
    ids = sorted(add(db, f"{HER}/{number}", about=HER) for number in range(5))
    first, after = list_requests(db, SCOPE, "", 2)
    second, next_after = list_requests(db, SCOPE, after, 2)
    last, end = list_requests(db, SCOPE, next_after, 2)
    assert [each.id for each in (*first, *second, *last)] == ids
    assert (after, end) == (ids[1], "")


def test_one_of_several_is_named_and_a_longer_name_is_not() -> None:
    assert is_named(HER, [HER]) and is_named(request_cards.join_voters([HIM, HER]), [HER])
    assert not is_named(HIM, [HER]) and not is_named("", [HER])


@pytest.mark.parametrize(
    ("reason", "given", "undone"), [("no time", "{}", True), ("", '{"a": 1}', True), ("", "{}", False)]
)
def test_words_of_hers_that_nobody_was_told_yet_keep_her(db: Db, reason: str, given: str, undone: bool) -> None:
    request_id = add(db)
    answer(db, request_id, HER, reason, given)
    assert list_undone(db, (HER,)) == ([request_id] if undone else [])
    db.run("UPDATE requests SET notified_at = 1 WHERE id = ?", (request_id,))
    assert list_undone(db, (HER,)) == []


def test_words_of_somebody_else_or_of_a_question_that_is_open_do_not(db: Db) -> None:
    answer(db, add(db), HIM, "no time")
    question = add(db, "q", RequestKind.QUESTION)
    request_cards.add_vote(db, question, HER, NOON)
    db.run("UPDATE requests SET answer = ? WHERE id = ?", ('{"a": "1"}', question))
    assert list_undone(db, (HER,)) == []
    db.run("UPDATE requests SET state = 'allowed' WHERE id = ?", (question,))
    assert list_undone(db, (HER,)) == [question]


def remove_all(db: Db) -> int:
    found, _ = list_requests(db, SCOPE, "", 100)
    return remove_requests(db, found, SCOPE, NOON + 1)


def test_requests_of_hers_go_with_their_cards_and_others_stay(db: Db) -> None:
    own, other = add(db, HER), add(db, HIM)
    for each in (own, other):
        message_id = add_arrival(db, NOON, platform_id=each)
        request_cards.add(db, request_cards.make_token(), each, HIM, *ROOM, message_id, NOON)
    assert remove_all(db) == 1
    assert requests.get(db, own) is None and requests.get(db, other) is not None
    assert request_cards.list_for_request(db, own) == [] and len(request_cards.list_for_request(db, other)) == 1


def test_what_she_decided_stays_without_her_words_once_its_asker_was_told(db: Db) -> None:
    known, unknown = add(db, "x1"), add(db, "x2")
    answer(db, known, HER, "because", '{"a": 1}', notified=NOON)
    answer(db, unknown, HER, "because", '{"a": 1}')
    remove_all(db)
    assert (get(db, known).state, get(db, known).answer) == (RequestState.ALLOWED, {})
    assert get(db, unknown).answer == {"a": 1}


def test_a_question_of_which_she_answered_a_part_does_not_wait_for_the_rest(db: Db) -> None:
    question = add(db, "q", RequestKind.QUESTION)
    request_cards.add_vote(db, question, HER, NOON)
    remove_all(db)
    assert get(db, question).state is RequestState.WITHDRAWN


def hold(db: Db, request_id: str, sender: str, text: str, rights: str = "guest") -> int:
    message_id = add_arrival(db, NOON, platform_id=text, sender=sender, sender_name="Him", text=text, thread="t")
    return inbox.hold(db, message_id, "", rights, request_id, NOON + 100, NOON)


def ask_about_room(db: Db, room: tuple[str, str] = ROOM) -> str:
    input = {"from": HER, "name": "Her", "text": "her words", "room": room[1]}
    return add(db, "fake room", RequestKind.ROOM, room, folder="", about=HER, input=input)


def test_a_room_in_which_somebody_wrote_after_her_is_asked_about_for_them(db: Db) -> None:
    request_id = ask_about_room(db)
    hold(db, request_id, ALSO_HER, "mine")
    hold(db, request_id, HIM, "x" * (LONGEST_EXCERPT + 9), "member")
    remove_all(db)
    left = get(db, request_id)
    assert (left.state, left.about, left.thread, left.rights) == (RequestState.PENDING, HIM, "t", "member")
    assert left.input == {"from": HIM, "name": "Him", "text": "x" * LONGEST_EXCERPT, "room": ROOM[1]}
    assert left.next_at == NOON + 1  # new cards, at once


def test_a_room_in_which_nobody_else_wrote_is_not_asked_about_any_more(db: Db) -> None:
    request_id = ask_about_room(db)
    hold(db, request_id, HER, "mine")
    remove_all(db)
    assert requests.get(db, request_id) is None


def test_neither_is_her_own_room_nor_one_that_was_decided(db: Db) -> None:
    own = ask_about_room(db, OWN_ROOM)
    hold(db, own, HIM, "his")
    remove_all(db)
    assert requests.get(db, own) is None
    decided = ask_about_room(db)
    hold(db, decided, HIM, "his too")
    answer(db, decided, HIM)
    remove_all(db)
    assert requests.get(db, decided) is None


def test_who_decided_with_others_is_replaced_and_the_others_stay_named(db: Db) -> None:
    alone, together, others = add(db, "x1"), add(db, "x2"), add(db, "x3")
    answer(db, alone, HER, "because", '{"a": 1}', notified=NOON)
    answer(db, together, request_cards.join_voters([HIM, HER]), "both", '{"a": 1}')
    answer(db, others, HIM, "his words", '{"a": 1}', notified=NOON)
    assert person_requests.replace_answerers(db, (HER,), "", "q") == 2
    assert (get(db, alone).answered_by, get(db, alone).reason, get(db, alone).answer) == (FORGOTTEN, "", {})
    assert request_cards.split_voters(get(db, together).answered_by) == [HIM, FORGOTTEN]
    assert (get(db, together).reason, get(db, together).answer) == ("both", {"a": 1})  # nobody was told yet
    assert (get(db, others).answered_by, get(db, others).reason) == (HIM, "his words")


def test_she_is_replaced_in_one_part_of_the_rows_at_a_time(db: Db) -> None:
    ids = sorted(add(db, f"x{number}") for number in range(3))
    for each in ids:
        answer(db, each, HER)
    assert person_requests.replace_answerers(db, (HER,), ids[0], ids[1]) == 1
    assert [get(db, each).answered_by for each in ids] == [HER, FORGOTTEN, HER]
