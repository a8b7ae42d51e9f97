"""The doctor: what is well, what is not, and the way out."""

from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import Answer, badge, code, made, make_table
from gatepost.serve.web.dashboard.view import Action, EmptyState, Filter, Moment, Note, PageView, Tone

AGAIN = Action(label="Look again", operation="doctor.run", args={"fresh": True})
WHICH = (("", "What is not well"), ("all", "Everything that was looked at"))
WELL = EmptyState(text="Everything that was looked at is well.")
FINDING = (
    badge("level", "How"),
    code("subject", "What"),
    made("text", "Found", lambda each: each["text"]),
    made("way_out", "Way out", lambda each: each["way_out"] or None),
    made("checked_at", "Looked at", lambda each: Moment(each["checked_at"])),
)


@page("/doctor", "Doctor", Section.GATEWAY, "doctor.run", order=70)
async def show_doctor(request: PageRequest) -> PageView:
    which = request.query.get("which", "")
    report = await request.ask("doctor.run")
    rows = [{**each, "checked_at": report["checked_at"]} for each in report["findings"]]
    shown = [each for each in rows if which == "all" or is_trouble(each)]
    return PageView(
        blocks=[make_summary(report["findings"]), make_table(shown, FINDING, WELL)],
        actions=(AGAIN,),
        filters=(Filter(name="which", label="Show", choices=WHICH, chosen=which),),
    )


def is_trouble(finding: Answer) -> bool:
    return finding["level"] in ("fail", "warn")


def make_summary(findings: list[Answer]) -> Note:
    failed = sum(each["level"] == "fail" for each in findings)
    warned = sum(each["level"] == "warn" for each in findings)
    if failed:
        return Note(text=f"{failed} of {len(findings)} things fail, and {warned} need a look.", tone=Tone.BAD)
    if warned:
        return Note(text=f"Nothing fails. {warned} of {len(findings)} things need a look.", tone=Tone.WARN)
    return Note(text=f"All {len(findings)} things that were looked at are well.", tone=Tone.GOOD)
