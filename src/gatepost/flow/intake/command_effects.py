"""What a slash command does, in the transaction of the message that gave it."""

from collections.abc import Sequence

from gatepost.access.senders import Rights
from gatepost.core.records import replace
from gatepost.flow.intake import slash_commands
from gatepost.flow.intake.accepted_message import IntakeResult, MessageContext, TargetAccess, find_session
from gatepost.flow.intake.slash_commands import CommandAction, SlashCommand
from gatepost.flow.sessions.session_stop import KILL_TIME, stop_session
from gatepost.store import groups, sessions
from gatepost.store.inbox import InboxState
from gatepost.store.outbox import OutboxEffect

CLEARED = "Cleared. The next message starts a new conversation."
NOT_RUNNING = "Nothing is running here."


def run_command(case: MessageContext, command: SlashCommand, targets: Sequence[TargetAccess]) -> IntakeResult | None:
    """Carry out what the gateway does by itself; None if the message goes to the agent."""
    first = targets[0]
    if command.act is CommandAction.DROP:
        return case.end(InboxState.CANCELLED, "dropped command", first.rights, first.folder)
    allowed = [target for target in targets if slash_commands.may_use(command, target.rights)]
    if not allowed:
        case.add_notice(f"Only an owner or an admin of this agent may use {command.head}.")
        return case.end(InboxState.REFUSED, "command_denied", first.rights, first.folder, told=True)
    first = allowed[0]
    if command.act is CommandAction.TELL:
        return answer_command(case, command, first.rights, first.folder)
    if command.act is CommandAction.PASS:
        return None
    concerned = tuple(session.id for target in allowed if (session := find_session(case, target.chosen)) is not None)
    done = f"command {command.head}"
    notices = _stop_sessions(case, concerned)
    if command.act is CommandAction.CLEAR:
        for session_id in concerned:
            sessions.remove_conversations(case.db, session_id)
        case.add_notice(CLEARED)
        ended = case.end(InboxState.ANSWERED, done, first.rights, first.folder, told=True)
        return replace(ended, clear=concerned, notices=notices)
    if not notices:
        case.add_notice(NOT_RUNNING)
    ended = case.end(InboxState.ANSWERED, done, first.rights, first.folder, told=not notices)
    return replace(ended, stop=concerned, notices=notices)


def _stop_sessions(case: MessageContext, concerned: Sequence[str]) -> tuple[OutboxEffect, ...]:
    """Here and not afterwards: a stop that was accepted is carried out, whatever happens to this process."""
    by = case.arrival.inbound.sender
    stopped = (stop_session(case.db, case.reach, session_id, by, case.now, hold=KILL_TIME) for session_id in concerned)
    return tuple(notice for notice in stopped if notice is not None)


def answer_command(case: MessageContext, command: SlashCommand, rights: Rights, folder: str) -> IntakeResult:
    group = groups.get(case.db, folder) if folder else None
    agent = (group.name or folder) if group else ""
    if command.head == "/help":
        case.add_notice(slash_commands.render_help(rights, agent))
    elif command.head == "/chatid":
        case.add_notice(f"{case.arrival.address} (channel {case.arrival.instance})")
    else:
        case.add_notice(f"pong: this chat goes to {agent}" if agent else "pong: no agent is set up for this chat")
    return case.end(InboxState.ANSWERED, f"command {command.head}", rights, folder, told=True)
