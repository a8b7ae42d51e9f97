"""The page of alerts: what may be done about each, and where it is looked at."""

from typing import Any

import pytest

from gatepost.serve.alerts.conditions import CONDITIONS, Severity
from gatepost.serve.control.arguments.alerts import AlertState, AlertView
from gatepost.serve.control.operations.alerts import make_view
from gatepost.serve.web.dashboard.contract import PAGES
from gatepost.serve.web.dashboard.view import Link, Tone
from gatepost.serve.web.pages.alerts import STATES, list_actions, list_notes, show_place, show_state
from gatepost.store.gateways.alerts import Alert

NOON = 1_800_000_000_000_000


def make(condition: str = "backup", subject: str = "", **more: Any) -> AlertView:
    row = Alert(id="al-1", condition=condition, subject=subject, gateway="", detail="9", since=0, **more)
    return make_view(row, NOON)


def test_each_state_has_a_word_and_what_nobody_knows_yet_is_said_above() -> None:
    assert {*STATES} == {*AlertState}
    untold = make()
    assert show_state(untold).tone is Tone.BAD and len(list_notes([untold])) == 1
    assert list_notes([make(told_at=1)]) == []


def test_what_mends_it_stands_before_the_mute_and_a_muted_one_can_be_told_again() -> None:
    assert [each.operation for each in list_actions(make())] == ["backup.create", "alert.mute"]
    assert [each.label for each in list_actions(make("disk_low"))] == ["Mute for a day"]
    (again,) = list_actions(make("disk_low", muted_until=NOON + 1))
    assert (again.label, again.args["hours"]) == ("Tell again", 0)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_each_condition_leads_to_a_page_that_is_there(condition: str) -> None:
    found = make(condition, "acme/eng" if condition == "agent" else "x")
    link = show_place(found)
    assert isinstance(link, Link) and link.text
    path = CONDITIONS[condition].page
    assert path.replace("{subject}", "{folder}") in dict(PAGES.items())
    assert found.severity in Severity


def test_an_alert_of_another_version_is_shown_by_its_name_and_leads_nowhere() -> None:
    found = make("of_another_version")
    assert (found.text, show_place(found)) == ("of_another_version", None)
