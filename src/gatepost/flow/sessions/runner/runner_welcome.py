"""The welcome of a runner: who it is, what it knows from before, and how its provider is set."""

from collections.abc import Sequence
from typing import Any

from gatepost.core.settings import Config
from gatepost.egress import audio
from gatepost.flow.schedule import TIMEZONE
from gatepost.flow.sessions.sandbox.provider_specs import find_spec
from gatepost.flow.sessions.session_deps import BATCH, SessionDeps
from gatepost.flow.skills.skill_folders import PreparedSkills
from gatepost.mailbox.runner_frames import (
    TRANSCRIBE_BY_COMMAND,
    TRANSCRIBE_BY_DEFAULT,
    SkillLine,
    WelcomeFrame,
    bound_conversation,
)
from gatepost.store.port import Db
from gatepost.store.sessions import forks, pinned_rules, sessions
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.pinned_rules import PinnedRule
from gatepost.store.sessions.sessions import Session, SessionMode, SessionNotes


async def make_welcome(
    deps: SessionDeps, session: Session, group: Group, provider: str, skills: PreparedSkills
) -> tuple[WelcomeFrame, str]:
    """Return the frame, and another session's conversation that this one goes on with, if no turn has done so yet."""
    known, notes, fork_source = await deps.store.read(_read_memory, session.id, provider)
    rules = render_pinned_rules(session, await deps.store.read(pinned_rules.list_for_group, session.folder))
    frame = WelcomeFrame(
        session=session.id,
        folder=session.folder,
        name=group.name,
        provider=provider,
        model=session.model or group.model,
        conversation=bound_conversation(known),
        timezone=deps.config[TIMEZONE],
        batch=deps.config[BATCH],
        spans_rooms=session.mode == SessionMode.AGENT_SHARED,
        options=_make_options(deps, session, group, provider),
        pinned=notes.pinned,
        rules=rules,
        summary=notes.summary,
        managed=bool(session.agent),
        transcript=list(notes.lines),
        skills=[SkillLine(each.name, each.description) for each in skills.listed],
        more_skills=skills.more,
    )
    return frame, fork_source


def _make_options(deps: SessionDeps, session: Session, group: Group, provider: str) -> dict[str, Any]:
    """The group's, as the session's own mode changes them. A mode of another provider, which the group had before, is
    left out."""
    options = {**group.options}
    if options.get("transcribe") in (None, "", "on"):
        options |= make_transcribe_options(deps.config)
    spec = find_spec(deps.home, provider)
    if session.permission_mode in {each.id for each in spec.modes}:
        options[spec.mode_option] = session.permission_mode
    return options


def make_transcribe_options(config: Config) -> dict[str, Any]:
    """Return what makes the transcripts of a group that names nothing itself: the endpoint of all groups, the program,
    or a model at the group's OpenAI endpoint. Empty if nothing is set."""
    if config[audio.BASE].strip():
        return {"transcribe": TRANSCRIBE_BY_DEFAULT}
    if command := audio.split_command(config):
        return {"transcribe": TRANSCRIBE_BY_COMMAND, "transcribe_command": command}
    return {"transcribe": config[audio.MODEL]}


def _read_memory(db: Db, session_id: str, provider: str) -> tuple[str, SessionNotes, str]:
    return (
        sessions.get_conversation(db, session_id, provider),
        sessions.get_notes(db, session_id),
        forks.get_unused_conversation(db, session_id, provider),
    )


def render_pinned_rules(session: Session, rules: Sequence[PinnedRule]) -> str:
    """Return a list in Markdown, '' if there are none. A conversation that spans rooms has the rules of each, with its
    name."""
    lines = []
    for each in rules:
        if not each.address or each.address == session.address:
            lines.append(_indent(each.text))
        elif session.mode is SessionMode.AGENT_SHARED:
            lines.append(_indent(f"In {each.address}: {each.text}"))
    return "\n".join(f"- {line}" for line in lines)


def render_rules_everywhere(rules: Sequence[PinnedRule]) -> str:
    """Return those of a group that hold in each of its rooms."""
    return "\n".join(f"- {_indent(each.text)}" for each in rules if not each.address)


def _indent(text: str) -> str:
    """Indent further lines: they belong to the same point of the list."""
    return text.replace("\n", "\n  ")
