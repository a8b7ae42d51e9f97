"""Routes: which agent gets what, in their order; and a tester that tells what would happen to a message."""

from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import Answer, code, flag, made, make_facts, make_table, number, text
from gatepost.serve.web.dashboard.view import Action, Badge, Block, EmptyState, Note, PageView, Tone

NEW = Action(label="New route", operation="route.add", asks=True, tone=Tone.GOOD)
TEST = Action(label="Test a message", operation="route.test", asks=True)
ROUTE = (
    number("seq", "Order"),
    code("match", "Messages that match"),
    code("target", "Go to"),
    text("mode", "Conversation"),
    flag("also", "Also", "and further routes"),
    text("fault", "Fault"),
    text("created_by", "Made by"),
)
EMPTY = EmptyState(text="No route leads anywhere: every message would be dropped.", action=NEW)
TESTED = (
    code("match", "Messages that match"),
    code("target", "Go to"),
    made("held", "Holds", lambda row: Badge("yes", Tone.GOOD) if row["held"] else Badge("no", Tone.QUIET)),
    text("why", "Why"),
)


@page("/routes", "Routes", Section.CONVERSATIONS, "route.list", order=30)
async def show_routes(request: PageRequest) -> PageView:
    found = await request.ask("route.list")
    blocks: list[Block] = []
    if request.query.get("address"):
        blocks = await _test(request)
    return PageView(
        lead="The first route that a message matches decides, unless it says “and further routes”.",
        blocks=[*blocks, make_table(found, ROUTE, EMPTY, actions=list_actions)],
        actions=(TEST, NEW),
    )


async def _test(request: PageRequest) -> list[Block]:
    names = ("address", "instance", "sender", "verb", "text", "thread")
    given = {name: request.query[name] for name in names if request.query.get(name)}
    tested = await request.ask("route.test", **given)
    said = make_facts(tested, (text("why", "Why"), text("decided_by", "Decided by")), title="This message")
    groups = ", ".join(each["folder"] for each in tested["groups"]) or "nobody"
    note = Note(text=f"It goes to {groups}.", tone=Tone.BAD if tested["dropped"] else Tone.GOOD)
    return [note, said, make_table(tested["routes"], TESTED, EMPTY, title="Judged one by one")]


def list_actions(route: Answer) -> tuple[Action, ...]:
    return (Action(label="Remove", operation="route.rm", args={"id": route["id"]}, asks=True, tone=Tone.BAD),)
