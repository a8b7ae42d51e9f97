"""Gateways that share this store: which live, and what each does. The doctor: what is well, what is not, and the way
out."""

from collections.abc import Sequence

from gatepost.serve.control.arguments.gateways import GatewayView, JudgeSecurityArgs, ListGatewaysArgs, RunDoctorArgs
from gatepost.serve.health.findings import Finding
from gatepost.serve.health.security_checks import PAGES as SECURITY_PAGES
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import badge, code, get_tone, made, make_columns, make_moment, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Cell,
    Disclosure,
    EmptyState,
    Fact,
    Facts,
    Link,
    Note,
    PageView,
    Prose,
    Tone,
)
from gatepost.store.gateways.gateways import GatewayState

ALONE = EmptyState(
    text="This store is a file of one machine, so it has one gateway. Several share one on PostgreSQL: docs/scale.md."
)

CHECK_AGAIN = Action(label="Look again", operation="doctor.run", args={"fresh": True})
NO_FINDINGS = EmptyState(text="Nothing was looked at yet.", action=CHECK_AGAIN)
CLOSED = EmptyState(text="Nothing is more open than it need be.")
WORST_FIRST = ("fail", "warn")  # what is not well comes first
LEVELS = (WORST_FIRST, ("note",), ("ok",))
FINDING = (
    badge("level", "How"),
    code("subject", "What"),
    made("text", "Found", lambda each: Prose(each.text)),
    made("remedy", "What to do", lambda each: Prose(each.remedy) if each.remedy else None),
)


def render_state(gateway: GatewayView) -> str:
    """In one word. One that is dead has not been taken over from yet."""
    if not gateway.alive and gateway.state is not GatewayState.GONE:
        return "dead"
    return "up" if gateway.state is GatewayState.RUNNING else gateway.state


def _make_badge(state: str) -> Badge:
    return Badge(state, get_tone(state))


STATE = made("shown_state", "State", lambda each: _make_badge(render_state(each)))
GATEWAY = make_columns(GatewayView, {"state": STATE}, details=True)


@page("/gateways", "Gateways", Section.SYSTEM, "gateway.list", order=70)
async def show_gateways(request: PageRequest) -> PageView:
    found = await request.ask(ListGatewaysArgs())
    return PageView(
        lead="Machines that work on one store. When one is gone, the others go on with what it had.",
        blocks=[make_table(found, GATEWAY, ALONE, actions=list_gateway_actions)],
    )


def list_gateway_actions(gateway: GatewayView) -> tuple[Action, ...]:
    given = {"name": gateway.name}
    if gateway.alive and gateway.state is GatewayState.RUNNING:
        return (Action(label="Drain", operation="gateway.drain", args=given, asks=True, tone=Tone.BAD),)
    if gateway.state is GatewayState.GONE:
        return (Action(label="Forget", operation="gateway.forget", args=given, asks=True),)
    return ()


@page("/doctor", "Health", Section.SYSTEM, "doctor.run", order=10)
async def show_doctor(request: PageRequest) -> PageView:
    report = await request.ask(RunDoctorArgs())
    urgent, known, well = ([each for each in report.findings if each.level in some] for some in LEVELS)
    looked = Facts(items=[Fact("Looked at", make_moment(report.checked_at))])
    return PageView(
        blocks=[
            make_summary(report.findings),
            *([make_table(sort_findings(urgent), FINDING, NO_FINDINGS, actions=list_mends)] if urgent else []),
            *([make_table(known, FINDING, NO_FINDINGS, actions=list_mends, title="Good to know")] if known else []),
            Disclosure(label=f"{len(well)} things are well", blocks=[looked, make_table(well, FINDING, NO_FINDINGS)]),
        ],
        actions=(CHECK_AGAIN,),
    )


@page("/security", "Security", Section.SYSTEM, "doctor.security", order=13)
async def show_security(request: PageRequest) -> PageView:
    found = await request.ask(JudgeSecurityArgs())
    closed = Note(text="Nothing is more open than it need be.", tone=Tone.GOOD)
    return PageView(
        lead="What is more open than it need be, the worst first.",
        blocks=[make_table(found, RISK, CLOSED, actions=list_mends) if found else closed],
    )


def show_risk_page(finding: Finding) -> Cell:
    path = SECURITY_PAGES.get(finding.subject)
    return Link("Change it", render_path(path)) if path else None


RISK = (
    badge("level", "How"),
    made("text", "Found", lambda each: Prose(each.text)),
    made("page", "Where", show_risk_page),
)


def list_mends(finding: Finding) -> tuple[Action, ...]:
    mend = finding.mend
    return (Action(label=mend.label, operation=mend.operation, args=mend.args, tone=Tone.GOOD),) if mend else ()


def sort_findings(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(
        findings, key=lambda each: WORST_FIRST.index(each.level) if each.level in WORST_FIRST else len(WORST_FIRST)
    )


def make_summary(findings: list[Finding]) -> Note:
    failed = sum(each.level == "fail" for each in findings)
    warned = sum(each.level == "warn" for each in findings)
    if failed:
        return Note(text=f"{failed} of {len(findings)} things fail, and {warned} need a look.", tone=Tone.BAD)
    if warned:
        return Note(text=f"Nothing fails. {warned} of {len(findings)} things need a look.", tone=Tone.WARN)
    return Note(text=f"All {len(findings)} things that were looked at are well.", tone=Tone.GOOD)
