"""The doctor: what is well, what is not, and the way out."""

from collections.abc import Sequence

from gatepost.serve.control.arguments.gateways import RunDoctorArgs
from gatepost.serve.health.findings import Finding
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import badge, code, made, make_moment, make_table
from gatepost.serve.web.dashboard.view import Action, EmptyState, Note, PageView, Tone

AGAIN = Action(label="Look again", operation="doctor.run", args={"fresh": True})
NOTHING = EmptyState(text="Nothing was looked at yet.", action=AGAIN)
ORDER = ("fail", "warn")  # what is not well comes first
FINDING = (
    badge("level", "How"),
    code("subject", "What"),
    made("text", "Found", lambda each: each.text),
    made("remedy", "What to do", lambda each: each.remedy or None),
)


@page("/doctor", "Doctor", Section.GATEWAY, "doctor.run", order=70)
async def show_doctor(request: PageRequest) -> PageView:
    report = await request.ask(RunDoctorArgs())
    fields = (*FINDING, made("checked_at", "Looked at", lambda each: make_moment(report.checked_at)))
    return PageView(
        blocks=[make_summary(report.findings), make_table(sort_findings(report.findings), fields, NOTHING)],
        actions=(AGAIN,),
    )


def sort_findings(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: ORDER.index(each.level) if each.level in ORDER else len(ORDER))


def make_summary(findings: list[Finding]) -> Note:
    failed = sum(each.level == "fail" for each in findings)
    warned = sum(each.level == "warn" for each in findings)
    if failed:
        return Note(text=f"{failed} of {len(findings)} things fail, and {warned} need a look.", tone=Tone.BAD)
    if warned:
        return Note(text=f"Nothing fails. {warned} of {len(findings)} things need a look.", tone=Tone.WARN)
    return Note(text=f"All {len(findings)} things that were looked at are well.", tone=Tone.GOOD)
