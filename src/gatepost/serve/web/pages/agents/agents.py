"""Managed agents: those that people and programs start for a piece of work."""

from gatepost.serve.control.arguments.agents import AgentSnapshot, ListAgentsArgs, ShowAgentArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import (
    code,
    link,
    made,
    make_columns,
    make_facts,
    make_table,
    make_texts,
    shorten,
)
from gatepost.serve.web.dashboard.view import Action, EmptyState, Filter, Link, Note, PageView, Tone
from gatepost.store.sessions.sessions import SessionState

NEW = Action(label="New agent", operation="agent.create", asks=True, tone=Tone.GOOD)
EMPTY = EmptyState(text="No agent was started for a piece of work yet.", action=NEW)
WHICH = (("", "Open"), ("all", "Also archived"))
GROUP = link("folder", "Group", "/groups/{folder}")
NAME = made(
    "title",
    "Agent",
    lambda each: Link(shorten(each.title or each.agent_id, 60), render_path("/agents/{id}", id=each.agent_id)),
)
LAST = made("lastMessage", "Last", lambda each: shorten(each.last_message or "") or None)
AGENT = (*make_columns(AgentSnapshot, {"title": NAME, "folder": GROUP}), LAST)
DETAILS = make_columns(AgentSnapshot, {"agent_id": code("agent_id", "Id"), "folder": GROUP}, details=True)


@page("/agents", "Managed agents", Section.AGENTS, "agent.list", order=40)
async def show_agents(request: PageRequest) -> PageView:
    which = request.query.get("which", "")
    found = await request.ask(ListAgentsArgs(archived=which == "all"))
    return PageView(
        blocks=[make_table(found, AGENT, EMPTY, actions=list_actions)],
        actions=(NEW,),
        filters=(Filter(name="which", label="Show", choices=WHICH, chosen=which),),
    )


@page("/agents/{id}", "Agent", Section.AGENTS, "agent.show")
async def show_agent(request: PageRequest) -> PageView:
    agent = await request.ask(ShowAgentArgs(id=request.params["id"]))
    trouble = [Note(text=agent.last_error, tone=Tone.BAD)] if agent.last_error else []
    say = Action(
        label="Say something", operation="agent.prompt", args={"id": agent.agent_id}, asks=True, tone=Tone.GOOD
    )
    return PageView(
        title=agent.title or agent.agent_id,
        blocks=[*trouble, make_facts(agent, DETAILS), *make_texts(AgentSnapshot, agent)],
        actions=(*list_actions(agent), say),
    )


def list_actions(agent: AgentSnapshot) -> tuple[Action, ...]:
    given = {"id": agent.agent_id}
    if agent.archived_at:
        return ()
    archive = Action(label="Archive", operation="agent.archive", args=given, asks=True, tone=Tone.BAD)
    if agent.status == SessionState.RUNNING:
        return (Action(label="Stop", operation="agent.stop", args=given), archive)
    return (archive,)
