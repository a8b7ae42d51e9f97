"""The overview's page: from the operation's answer to cards and findings, and over HTTP for people of other rights."""

from typing import Any

import pytest

from gatepost.core.clock import MINUTE, Period, SystemClock, iso
from gatepost.core.records import replace
from gatepost.flow.reports import AgentStatus, SafeStep
from gatepost.messages.inbound import Direction
from gatepost.serve.control.arguments.overview import (
    AgentOverview,
    GatewayOverview,
    OverviewBudget,
    OverviewExtent,
    OverviewMessage,
    OverviewRequest,
    OverviewStep,
    OverviewWait,
    PanicState,
)
from gatepost.serve.health.findings import Finding
from gatepost.serve.web.dashboard.renderer import render
from gatepost.serve.web.dashboard.view import AgentCards, Badge, Fact, Link, Money, Share, Tone
from gatepost.serve.web.pages.overview import list_notes, make_card, make_view, render_summary
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, switches
from gatepost.store.rights.acl import AclRow
from gatepost.store.rights.requests import RequestKind
from gatepost.store.sessions import groups

NOW = 1_800_000_000_000_000
AGO = NOW - 3 * MINUTE
ADA = "telegram:user/9"
EVIL = '"><script>alert(1)</script>'


def make_agent(**more: Any) -> AgentOverview:
    made = AgentOverview(
        id="acme/eng",
        folder="acme/eng",
        title="Engineering",
        managed=False,
        provider="claude",
        state=AgentStatus.ASLEEP,
        since_at=AGO,
        active_at=AGO,
        last=OverviewMessage(id=1, direction=Direction.IN, by="Bob", text="hello", at=AGO),
        queued=0,
        sandboxes=0,
        spent=120_000,
        budget=None,
        requests=0,
        request=None,
        waits=[],
        failure="",
        next=None,
    )
    return replace(made, **more)


def make_answer(*agents: AgentOverview, **more: Any) -> GatewayOverview:
    found = GatewayOverview(
        extent=OverviewExtent.ALL,
        panic=None,
        findings=[],
        counts={"asleep": len(agents)},
        homeless=0,
        total=len(agents),
        agents=list(agents),
    )
    return replace(found, **more)


def test_a_card_has_the_last_words_the_state_and_what_it_costs() -> None:
    budget = OverviewBudget(folder="acme", period=Period.DAY, limit=2_000_000, spent=500_000)
    card = make_card(make_agent(state=AgentStatus.WORKING, sandboxes=1, queued=2, budget=budget), NOW)
    assert (card.title, card.by, card.last, card.last_at) == ("Engineering", "Bob", "hello", iso(AGO))
    assert card.state == Badge("Working, 3 min", Tone.GOOD)
    assert card.facts == [
        Fact("Agent", "claude"),
        Fact("Queue", 2),
        Fact("Sandbox", "awake"),
        Fact("Today", Money(120_000)),
        Fact("Budget", Share(500_000, 2_000_000, "$0.50 of $2.00 a day, acme")),
    ]


def test_a_card_says_what_is_asked_who_waits_and_offers_the_step() -> None:
    request = OverviewRequest(id="p-1", kind=RequestKind.TOOL, what="Bash", why="it deletes files", asked_at=AGO)
    waits = [
        OverviewWait(who="acme/eng", whom="a person", what="tool Bash", count=3, since_at=AGO),
        OverviewWait(who="acme/eng", whom="beta", what="errand", count=1, since_at=AGO),
        OverviewWait(who="acme", whom="acme/eng", what="errand", count=1, since_at=None),
    ]
    step = OverviewStep(step=SafeStep.ANSWER, operation="permit.answer", args={"id": "p-1"}, command="…")
    card = make_card(make_agent(state=AgentStatus.WAITING, requests=3, request=request, waits=waits, next=step), NOW)
    assert card.waits == (
        "Asks to use Bash (it deletes files) and 2 more, 3 min · Waits for beta: errand, 3 min"
        " · acme waits for it: errand"
    )
    assert card.action is not None
    assert (card.action.operation, card.action.args, card.action.asks) == ("permit.answer", {"id": "p-1"}, True)


def test_a_managed_agent_leads_to_its_session_and_a_failure_is_told() -> None:
    managed = make_card(make_agent(managed=True, id="s-1", title=""), NOW)
    assert (managed.href, managed.title) == ("/dashboard/agents/s-1", "acme/eng")
    assert make_card(make_agent(), NOW).href == "/dashboard/groups/acme%2Feng"
    assert make_card(make_agent(title="eng"), NOW).title == "acme/eng"  # there may be beta/eng, too
    step = OverviewStep(step=SafeStep.TRACE, operation="ledger.trace", args={"message": "42"}, command="…")
    shown = make_card(make_agent(state=AgentStatus.FAILING, next=step), NOW)
    assert (shown.link, shown.action) == (Link("Look at the message", "/dashboard/ledger/42"), None)
    assert make_card(make_agent(state=AgentStatus.FAILING, failure="no  key\n"), NOW).trouble == "no key"
    assert make_card(make_agent(failure="no key"), NOW).trouble == ""


@pytest.mark.parametrize(
    ("counts", "notes", "lead"),
    [
        ({"asleep": 1}, 0, "All is well: 1 agent has nothing to do."),
        ({"asleep": 2, "working": 1}, 0, "All is well: 1 agent has work, 2 agents have nothing to do."),
        ({"asleep": 2}, 1, "2 agents have nothing to do."),
        ({"waiting": 1, "failing": 1}, 0, "2 agents need somebody."),
        ({}, 0, "All is well."),
    ],
)
def test_the_lead_answers_whether_everything_is_well(counts: dict[str, int], notes: int, lead: str) -> None:
    assert render_summary(counts, notes) == lead


def test_a_panic_comes_first_and_can_be_ended_and_findings_are_few() -> None:
    finding = Finding(level="warn", subject="disk", text="0.5 GB free", remedy="free `some`")
    findings = [replace(finding, level="fail"), *[finding] * 9]
    notes = list_notes(make_answer(panic=PanicState(since_at=AGO, reason="smoke"), findings=findings, homeless=2), NOW)
    assert notes[0].action is not None and notes[0].action.operation == "panic.off" and notes[0].action.asks
    assert notes[0].text == "Everything is stopped, since 3 min. Messages are kept. The operator's words: smoke"
    assert notes[1].text.startswith("2 requests wait that are about no agent")
    assert (notes[2].text, notes[2].hint, notes[2].tone) == ("Disk: 0.5 GB free", "free some", Tone.BAD)
    assert (len(notes), notes[-1].text) == (7, "6 more findings.")


def test_more_agents_than_one_page_lead_to_the_next_with_the_same_choice() -> None:
    found = make_answer(make_agent(), total=90)
    [cards] = make_view(found, NOW, {"part": "idle", "q": "a b"}, 40).blocks
    assert isinstance(cards, AgentCards) and cards.more == "?part=idle&q=a+b&start=41"
    [last] = make_view(make_answer(make_agent()), NOW, {}, 0).blocks
    assert isinstance(last, AgentCards) and last.more == ""


def test_words_of_strangers_stay_words() -> None:
    last = OverviewMessage(id=1, direction=Direction.IN, by=EVIL, text=EVIL, at=AGO)
    waits = [OverviewWait(who="acme/eng", whom="a person", what=EVIL, count=1, since_at=AGO)]
    agent = make_agent(title=EVIL, last=last, waits=waits, state=AgentStatus.FAILING, failure=EVIL, provider=EVIL)
    findings = [Finding(level="fail", subject=EVIL, text=EVIL, remedy=EVIL)]
    found = make_answer(agent, findings=findings, panic=PanicState(since_at=AGO, reason=EVIL))
    shown = render(
        "fragment.html",
        view=make_view(found, NOW, {"q": EVIL}, 0),
        title="Agents",
        tabs=(),
        query={"q": EVIL},
        address="/dashboard/",
        now=NOW,
        prefix="/dashboard",
        viewed=None,
        export_query=lambda kind: kind,
    )
    assert "<script" not in shown.lower() and shown.count("alert(1)") >= 8


@pytest.mark.slow
async def test_the_first_page_is_the_overview_and_its_cards_are_exported(site: Any) -> None:
    await site.store.write(groups.add, "acme", "=Acme", "claude", 1)
    async with site.signed_in() as browser:
        page = await browser.get("/dashboard/")
        assert page.status_code == 200 and "<h1>Agents</h1>" in page.text and 'id="card-acme"' in page.text
        assert page.text.index("Overview") < page.text.index(">Tasks<")
        found = await browser.get("/dashboard/?q=nothing-like-it", headers={"hx-request": "true"})
        assert 'id="card-acme"' not in found.text and "No agent is like that" in found.text
        rows = (await browser.get("/dashboard/?format=json")).json()
        assert next(row for row in rows if row["key"] == "acme")["title"] == "=Acme"
        assert "'=Acme" in (await browser.get("/dashboard/?format=csv")).text
        assert (await browser.get("/dashboard", follow_redirects=True)).url.path == "/dashboard/"
        for odd in ("start=-1", "start=x", "start=99999999", "part=no", f"q={'x' * 5000}"):
            assert (await browser.get(f"/dashboard/?{odd}")).status_code == 200


async def test_a_person_sees_what_they_may_and_one_without_rights_is_told_how_to_get_some(site: Any) -> None:
    def add(db: Db) -> None:
        users.add(db, ADA, "Ada", 1)
        users.add(db, "fake:user/bea", "Bea", 1)
        users.add_role(db, "fake:user/bea", UserRole.OWNER, "", "test", 1)
        groups.add(db, "acme", "Acme", "claude", 1)
        groups.add(db, "beta", "Beta", "claude", 1)
        switches.turn_on(db, switches.PANIC, "smoke", "op", 1)

    await site.store.write(add)
    address = await make_login_url(site.store, SystemClock(), site.answerer.hub, site.base, ADA)
    async with site.browser() as browser:
        answer = await browser.post("/login", json={"token": address.partition("#token=")[2]})
        assert answer.status_code == 200, answer.text
        page = await browser.get("/dashboard/")
        assert page.status_code == 200 and "Nothing is shared with you here yet" in page.text
        assert "Acme" not in page.text
        assert "Bea." in page.text and "gatepost grant" not in page.text
        row = AclRow(id=0, principal=ADA, action="op:overview.read", scope="acme")
        await site.store.write(acl.put, row, 1)
        page = await browser.get("/dashboard/")
        assert 'id="card-acme"' in page.text and "Beta" not in page.text and ">Overview</a>" in page.text
        assert ">Tasks</a>" not in page.text


async def test_the_title_of_a_nested_groups_card_leads_to_its_page(site: Any) -> None:
    await site.store.write(groups.add, "acme/eng", "Engineering", "claude", 1)
    async with site.signed_in() as browser:
        assert 'href="/dashboard/groups/acme%2Feng"' in (await browser.get("/dashboard/")).text
        page = await browser.get("/dashboard/groups/acme%2Feng")
        assert page.status_code == 200 and "Engineering" in page.text
