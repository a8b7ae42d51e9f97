"""Alerts: what is not well now, who was told, and what was lately."""

from gatepost.core.languages.catalogue import translate
from gatepost.serve.control.arguments.alerts import AlertState, AlertView, ListAlertsArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import made, make_moment, make_table
from gatepost.serve.web.dashboard.view import Action, Badge, Cell, EmptyState, Link, Note, PageView, Prose, Tone

TEST = Action(label="Send a test", operation="alert.test")
NOTHING = EmptyState(text="Everything is well. When something is not, you are told, and it stands here.")
NOTHING_OVER = EmptyState(text="Nothing was amiss in the last month.")
QUIET_HOURS = Link("Quiet hours", render_path("/settings/{name}", name="alerts.quiet_hours"))
STATES = {
    AlertState.NEW: ("just begun", Tone.WARN),
    AlertState.UNTOLD: ("nobody told yet", Tone.BAD),
    AlertState.TOLD: ("was told", Tone.BAD),
    AlertState.MUTED: ("is muted", Tone.QUIET),
    AlertState.PASSING: ("nearly over", Tone.WARN),
    AlertState.OVER: ("is over", Tone.GOOD),
}
PLACES = {
    "/doctor": "Health",
    "/channels": "Channels",
    "/backups": "Backups",
    "/costs": "Costs",
    "/gateways": "Gateways",
    "/ledger": "Messages",
    "/api": "API",
}


def show_state(alert: AlertView) -> Badge:
    text, tone = STATES[alert.state]
    if alert.state is AlertState.TOLD and alert.told:
        text = f"told on {alert.told}"
    return Badge(translate(text), tone)


def show_place(alert: AlertView) -> Cell:
    """Return the page where it can be looked at and mended."""
    if "{subject}" in alert.page:
        return Link(alert.subject, render_path(alert.page, subject=alert.subject))
    label = PLACES.get(alert.page)
    return Link(translate(label), render_path(alert.page)) if label else None


STATE = made("state", "State", show_state)
TEXT = made("text", "What", lambda each: Prose(each.text))
BOTH = made("text", "What, and what helps", lambda each: Prose(f"{each.text} {each.cure}"))
PLACE = made("page", "Where", show_place)
SINCE = made("since", "Since", lambda each: make_moment(each.since))
OVER = made("over_at", "Over", lambda each: make_moment(each.over_at))


@page("/alerts", "Alerts", Section.SYSTEM, "alert.list", order=11)
async def show_alerts(request: PageRequest) -> PageView:
    found = await request.ask(ListAlertsArgs(over=True))
    now = [each for each in found if each.state is not AlertState.OVER]
    over = [each for each in found if each.state is AlertState.OVER]
    before = [make_table(over, (TEXT, SINCE, OVER), NOTHING_OVER, title="Over")] if over else []
    return PageView(
        lead="You are told once when something is not well, and once when it is over.",
        blocks=[
            *list_notes(now),
            make_table(now, (STATE, BOTH, PLACE, SINCE), NOTHING, actions=list_actions),
            *before,
        ],
        actions=(TEST,),
    )


def list_notes(found: list[AlertView]) -> list[Note]:
    if all(each.state is not AlertState.UNTOLD for each in found):
        return []
    text = (
        "Somebody could not be told yet. Write to the gateway once on a channel that works, or wait for the end of the"
        " quiet hours."
    )
    return [Note(text=text, tone=Tone.WARN, link=QUIET_HOURS)]


def list_actions(alert: AlertView) -> tuple[Action, ...]:
    mend, given = alert.mend, {"alert": alert.id}
    mends = (Action(label=mend.label, operation=mend.operation, args=mend.args, tone=Tone.GOOD),) if mend else ()
    if alert.state is AlertState.MUTED:
        return (*mends, Action(label="Tell again", operation="alert.mute", args={**given, "hours": 0}))
    return (*mends, Action(label="Mute for a day", operation="alert.mute", args={**given, "hours": 24}))
