"""Replays: what another model, AGENTS.md or skill would have made of a conversation. Nothing of it reaches anybody."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier, TreeScope, may_act_on
from gatepost.core.errors import Invalid, NotFound, Unavailable
from gatepost.gate.tool_answers import fitting
from gatepost.store.port import Db
from gatepost.store.sessions import replays, sessions
from gatepost.store.sessions.replays import Replay, ReplayedTurn, StartedReplay
from gatepost.tools.call import ReplayWish, ToolCall
from gatepost.tools.contract import Body, tool

LONGEST_COMPARED = 4000  # characters of each text
LONGEST_MODEL = 200


class ReplayResults(Struct, frozen=True, kw_only=True):
    """`more`: there are later turns, which do not fit one answer; give the number of the last as `after`. `took` and
    `micro` (cost) are in millionths."""

    replay_id: str
    session_id: str
    changes: dict[str, str]
    finished: bool
    turns: list[ReplayedTurn]
    more: bool


@tool(tier=Tier.WORLD, group="sessions", effects=(Subject.INSTRUCT,))
async def replay_session(
    call: ToolCall,
    sessionId: Annotated[str, Meta(description="The conversation, as list_sessions shows it.")],
    model: Annotated[str | None, Meta(description="Another model for it.")] = None,
    agentsMd: Annotated[Body | None, Meta(description="Another AGENTS.md, whole.")] = None,
    skill: Annotated[str | None, Meta(description="The name of a skill that is to be another.")] = None,
    skillContent: Annotated[Body | None, Meta(description="Its SKILL.md, whole.")] = None,
    turns: Annotated[int, Meta(description="The newest so many turns (1–50).")] = 20,
) -> StartedReplay:
    """Give the messages of a conversation once more, to a new one with changed settings, to see what it answers.

    Nothing of it is delivered, and the conversation itself goes on as it was. It costs what its turns cost. See the
    answers side by side with compare_replay. To change the settings for good use write_skill.
    """
    if call.deps.replayer is None:
        raise Unavailable("replay_session", "no agent runs in this process")
    if (skill is None) != (skillContent is None):
        raise Invalid("skill", "name the skill and give its skillContent, or neither")
    if model is not None and len(model) > LONGEST_MODEL:
        raise Invalid("model", f"has more than {LONGEST_MODEL} characters")
    wish = ReplayWish(
        model=model or "",
        agents_md=agentsMd or "",
        skills={skill: skillContent} if skill is not None and skillContent is not None else {},
        turns=turns,
    )
    await call.read(_check_source, call, sessionId)
    return await call.deps.replayer.replay_session(call, sessionId, wish)


@tool(tier=Tier.WORLD, group="sessions", read_only=True, idempotent=True)
async def compare_replay(
    call: ToolCall,
    replayId: Annotated[str, Meta(description="As replay_session gave it.")],
    after: Annotated[int, Meta(ge=0, le=2**31, description="Only turns behind this number.")] = 0,
) -> ReplayResults:
    """See a replay beside its conversation, turn by turn: what was asked, both answers, what each cost and took.

    If it is not finished, end your turn and look again later. For what was said elsewhere use read_session.
    """

    def read(db: Db) -> tuple[Replay, list[ReplayedTurn]]:
        found = replays.get(db, replayId)
        if found is None or not _may_replay(call, found.folder):
            raise NotFound("replay", replayId[:80], "replay_session makes one")
        return found, replays.compare(db, found, LONGEST_COMPARED)

    found, both = await call.read(read)
    shown, more = fitting(each for each in both if each.number > after)
    return ReplayResults(
        replay_id=found.session_id,
        session_id=found.source_id,
        changes=found.changes,
        finished=all(each.replayed is not None and each.replayed.took is not None for each in both),
        turns=shown,
        more=more,
    )


def _check_source(db: Db, call: ToolCall, session_id: str) -> None:
    session = sessions.get(db, session_id)
    if session is None or not _may_replay(call, session.folder):
        raise NotFound("session", session_id[:80], "use list_sessions to see them")


def _may_replay(call: ToolCall, folder: str) -> bool:
    return may_act_on(TreeScope.SUBTREE, call.caller.folder, folder) and call.allows(folder)
