"""From a command that somebody gave to the function that carries it out, in the transaction of its message."""

from collections.abc import Sequence

from gatepost.access.senders import Rights
from gatepost.core.registry import load_package
from gatepost.flow.intake import slash_commands
from gatepost.flow.intake.accepted_message import IntakeResult, MessageContext, TargetAccess
from gatepost.flow.intake.commands.contract import HANDLERS, CommandCall
from gatepost.flow.intake.slash_commands import COMMANDS, CommandAction, SlashCommand
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db
from gatepost.store.sessions import skills

load_package("gatepost.flow.intake.commands")  # the folder is listed, not maintained


def parse_known(text: str) -> SlashCommand | None:
    """Return the command that a message is, with all commands known."""
    return slash_commands.parse_command(text)


def run_command(context: MessageContext, command: SlashCommand, targets: Sequence[TargetAccess]) -> IntakeResult | None:
    """Carry out what the gateway does by itself; None if the message goes to the agent."""
    first = targets[0]
    if command.act is CommandAction.DROP:
        return context.end(InboxState.CANCELLED, "dropped command", first.rights, first.folder)
    allowed = tuple(target for target in targets if slash_commands.may_use(command, target.rights))
    if not allowed:
        context.add_notice(slash_commands.render_refusal(COMMANDS[command.name]))
        return context.end(InboxState.REFUSED, "command_denied", first.rights, first.folder, notified=True)
    call = CommandCall(context, command, allowed, allowed[0].rights)
    near = find_mistyped(context.db, command, call.folder)
    if near:
        return call.refuse(slash_commands.render_mistyped(command, near))
    handler = HANDLERS.get(command.name)
    return handler(call) if handler is not None else None


def find_mistyped(db: Db, command: SlashCommand, folder: str) -> str:
    """Return the command that a word is near to; '' if it is for the agent, as the name of one of its skills is."""
    near = slash_commands.find_near_command(command)
    return near if near and command.name not in {each.name for each in skills.list_for_agent(db, folder)} else ""


def answer_without_agent(context: MessageContext, command: SlashCommand | None, rights: Rights) -> IntakeResult | None:
    """Answer a command in a chat that no route leads from. Return None if it is no command, or not for such a chat."""
    spec = COMMANDS.get(command.name) if command is not None else None
    if command is None or spec is None or not spec.anywhere or not slash_commands.may_use(command, rights):
        return None
    handler = HANDLERS.get(command.name)
    return handler(CommandCall(context, command, (), rights)) if handler is not None else None
