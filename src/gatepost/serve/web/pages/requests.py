"""Requests: what agents ask people for, and the answers that let them go on."""

import json

from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import Answer, made, make_table, moment, shorten
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView, Tone
from gatepost.store.requests import RequestKind

EMPTY = EmptyState(text="Nobody waits for an answer. What an agent must ask for is here, and in its chat.")
REQUEST = (
    made("agent", "Agent", lambda each: each["agent"]["title"] or each["agent"]["folder"] or each["agent"]["agentId"]),
    made("kind", "Asks for", lambda each: each["request"]["kind"]),
    made("name", "What", lambda each: each["request"]["name"]),
    made("input", "With", lambda each: shorten(json.dumps(each["request"]["input"], ensure_ascii=False))),
)
ASKED = (moment("asked_at", "Since"),)


@page("/requests", "Requests", Section.NOW, "permit.list", order=20)
async def show_requests(request: PageRequest) -> PageView:
    found = [{**each, "asked_at": each["request"]["askedAt"]} for each in await request.ask("permit.list")]
    return PageView(
        lead="An agent waits until one of these is answered. Cards in chats say the same.",
        blocks=[make_table(found, (*REQUEST, *ASKED), EMPTY, actions=list_actions)],
    )


def list_actions(asked: Answer) -> tuple[Action, ...]:
    given = {"id": asked["request"]["id"]}
    if asked["request"]["kind"] == RequestKind.QUESTION:
        return (Action(label="Answer", operation="permit.answer", args=given, asks=True, tone=Tone.GOOD),)
    return (
        Action(label="Allow", operation="permit.answer", args={**given, "allow": "on"}, tone=Tone.GOOD),
        Action(label="Deny", operation="permit.answer", args=given, tone=Tone.BAD),
        Action(label="Edit", operation="permit.answer", args=given, asks=True),
    )
