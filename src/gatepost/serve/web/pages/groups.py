"""Groups: the tree of agents; each with its routes, conversations and settings."""

from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import (
    Answer,
    badge,
    code,
    flag,
    link,
    made,
    make_facts,
    make_table,
    moment,
    number,
    text,
)
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView, Tone

NEW = Action(label="New group", operation="group.add", asks=True, tone=Tone.GOOD)
EMPTY = EmptyState(text="There is no group. A group is a folder with one agent.", action=NEW)
GROUP = (
    link("folder", "Group", "/groups/{folder}"),
    text("name", "Name"),
    number("tier", "Tier"),
    made("provider", "Provider", lambda group: group["provider"] or "default"),
    made("model", "Model", lambda group: group["model"] or "default"),
    flag("open", "Siblings", "see what is said here"),
    moment("created_at", "Since"),
)
DETAILS = (
    *GROUP[1:],
    made("sandbox", "Sandbox", lambda group: group["sandbox"] or "default"),
    made("limits", "Limits", lambda group: ", ".join(f"{name} {value}" for name, value in group["limits"].items())),
    made("mounts", "Mounts", lambda group: ", ".join(group["mounts"]) or None),
)
ROUTE = (number("seq", "Order"), code("match", "Messages that match"), text("mode", "Conversation"))
DESTINATION = (text("name", "Name"), text("kind", "Kind"), code("address", "Where"), code("target_folder", "Group"))
SESSION = (
    link("id", "Conversation", "/sessions/{id}", shown=lambda session: session["title"] or session["id"]),
    code("address", "Room"),
    badge("state", "State"),
    moment("active_at", "Active"),
)


@page("/groups", "Groups", Section.AGENTS, "group.list", order=10)
async def show_groups(request: PageRequest) -> PageView:
    found = sorted(await request.ask("group.list"), key=lambda group: str(group["folder"]))
    return PageView(blocks=[make_table(found, GROUP, EMPTY)], actions=(NEW,))


@page("/groups/{folder}", "Group", Section.AGENTS, "group.show")
async def show_group(request: PageRequest) -> PageView:
    group = await request.ask("group.show", folder=request.params["folder"])
    given = {"folder": group["folder"]}
    no_route = EmptyState(
        text="No route leads here.", action=Action(label="New route", operation="route.add", asks=True)
    )
    return PageView(
        title=group["name"] or group["folder"],
        blocks=[
            make_facts(group, DETAILS),
            make_table(group["sessions"], SESSION, EmptyState(text="Nobody talks with it."), title="Conversations"),
            make_table(group["routes"], ROUTE, no_route, title="Routes"),
            make_table(
                group["destinations"],
                DESTINATION,
                EmptyState(text="It may write to nobody else."),
                title="May write to",
            ),
        ],
        actions=list_actions(given),
    )


def list_actions(given: Answer) -> tuple[Action, ...]:
    return (
        Action(label="Change", operation="group.set", args=given, asks=True),
        Action(label="Add a rule", operation="grant.add", args=given, asks=True),
        Action(label="New task", operation="task.add", args=given, asks=True),
        Action(label="Remove", operation="group.rm", args=given, asks=True, tone=Tone.BAD),
    )
