"""What happened, in words: a table of cases."""

import re

import pytest

from gatepost.core.languages.catalogue import speaking
from gatepost.flow import activity_words as words
from gatepost.flow.requests.choices import ACTS
from gatepost.serve.control.contract import OPERATIONS
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.outbox import EffectState
from gatepost.store.rights.requests import RequestKind
from gatepost.store.schedule.firings import FiringState

CODE = re.compile(r"[a-z]_[a-z]|\bgatepost\b|--|[a-z]\.[a-z]")
REFUSED = "Max was not allowed to change the network (x.com, Home)"
CASES = [
    (words.render_received("Anna", ["Home"], "General"), "Anna wrote to Home in General"),
    (words.render_received("Anna", [], "General"), "Anna wrote in General"),
    (words.render_received("Anna", ["A", "B", "C"], ""), "Anna wrote to A, B and 1 more"),
    (words.render_sent("Home", "General", EffectState.SENT), "Home wrote in General"),
    (words.render_sent("Home", "", EffectState.UNCERTAIN), "Home wrote, and it may not have arrived"),
    (words.render_call("Home", "find_messages", "allowed"), "Home searched messages"),
    (words.render_call("Home", "calendar__list_days", "allowed"), "Home used calendar list days"),
    (words.render_call("Home", "send_file", "held"), "Home asked to send a file"),
    (words.render_call("Home", "send_file", "refused"), "Home was not allowed to send a file"),
    (words.render_call("Home", "send_file", "failed"), "Home could not send a file"),
    (words.render_decision("Max", "Home", "call", "allowed", tool="send_file"), "Max allowed Home to send a file"),
    (words.render_decision("Max", "Home", "call", "denied", tool="x_y"), "Max did not allow Home to use x y"),
    (words.render_decision("Max", "Home", "sender", "allowed", about="Anna"), "Anna was let in to Home by Max"),
    (words.render_decision("Max", "", "sender", "denied"), "Somebody was kept out by Max"),
    (words.render_decision("Max", "Home", "budget", "allowed", about="$2.00"), "Max allowed Home $2.00 more"),
    (words.render_decision("Max", "Home", "host", "denied", about="x.com"), "Max did not let Home reach x.com"),
    (words.render_cost("Home", 20_000, ["opus"]), "Home spent $0.02 on opus"),
    (words.render_cost("Home", 2_345_678, ["opus", "haiku"]), "Home spent $2.35 on opus and haiku"),
    (words.render_cost("Home", 9_999, ["opus"]), "Home spent less than a cent on opus"),
    (words.render_firing("Home", "News", "failed"), "The task “News” of Home failed"),
    (words.render_change("Max", "group.rest", "done", "Home"), "Max put an agent to rest (Home)"),
    (
        words.render_change("Max", "egress.allow", "done", "Home", name="github.com"),
        "Max let Home reach github.com",
    ),
    (words.render_change("Max", "egress.deny", "done", "", name="x.com"), "Max kept all agents from x.com"),
    (
        words.render_change("Max", "group.write_file", "done", "Home", name="AGENTS.md"),
        "Max changed the file AGENTS.md of Home",
    ),
    (words.render_change("Max", "settings.set", "done", "", name="log.level"), "Max changed a setting (log.level)"),
    (words.render_change("Max", "secret.set", "done", "Home", name="HUB"), "Max changed a secret (HUB, Home)"),
    (words.render_change("Max", "egress.allow", "refused", "Home", name="x.com"), REFUSED),
    (words.render_change("Max", "odd_thing.twist", "done", ""), "Max changed odd thing"),
    (words.render_change("Max", "budget.set", "refused", ""), "Max was not allowed to change a limit"),
    (words.render_change("Max", "alert.test", "done", ""), "Max had a test alert sent"),
    (words.render_change("Max", "door.token", "refused", ""), "Max came with a link or a token that is not valid"),
    (words.render_change("Max", "user.pair", "refused", "Anna"), "Max sent a code that paired nobody"),
    (words.render_change("Max", "user.pair", "done", "Anna"), "Max joined two identities of a person (Anna)"),
    (words.render_step("call find_messages"), "The agent searched messages"),
    (words.render_step("send sent"), "The answer has arrived"),
    (words.render_step("some_thing new"), "Some thing new"),
]


@pytest.mark.parametrize(("said", "expected"), CASES, ids=[each[1] for each in CASES])
def test_a_sentence_of_the_table(said: str, expected: str) -> None:
    assert said == expected


@pytest.mark.parametrize(
    ("action", "name", "expected"),
    [
        ("task.add", "", "Max hat eine Aufgabe hinzugefügt (Home)"),
        ("egress.allow", "github.com", "Max hat Home erlaubt, github.com zu erreichen"),
        ("group.rest", "", "Max hat einen Agenten zur Ruhe gelegt (Home)"),
    ],
)
def test_a_change_is_said_in_the_language_of_the_reader(action: str, name: str, expected: str) -> None:
    with speaking("de"):
        assert words.render_change("Max", action, "done", "Home", name=name) == expected


def test_what_an_agent_did_is_said_in_the_language_of_the_reader_and_a_name_with_braces_stays() -> None:
    with speaking("de"):
        assert words.render_call("{x}", "send_file", "held") == "{x} hat gefragt: eine Datei senden"
        assert (
            words.render_cost("Home", 1_234_560_000, ["opus", "haiku"])
            == "Home hat 1.234,56 $ für opus und haiku ausgegeben"
        )
        assert words.render_step("call find_messages") == "Der Agent hat Nachrichten durchsucht"


@pytest.mark.parametrize("state", list(InboxState))
def test_every_end_of_a_message_is_said_in_words(state: InboxState) -> None:
    assert not CODE.search(words.render_outcome("Home", state))


def test_no_operation_tool_kind_or_state_is_said_by_its_code() -> None:
    said = [words.render_change("Max", name, "done", "") for name, _ in OPERATIONS.items()]
    said += [
        words.render_call("Home", tool, verdict) for tool in (*ACTS, *words.DONE) for verdict in ("allowed", "held")
    ]
    said += [
        words.render_decision("Max", "Home", kind, verdict) for kind in RequestKind for verdict in ("allowed", "denied")
    ]
    said += [words.render_firing("Home", "News", state) for state in FiringState]
    assert [each for each in said if CODE.search(each)] == []
