"""/fork: a topic of its own for what follows, whose conversation knows what was said in this one."""

from gatepost.core.errors import Invalid
from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.commands.contract import CommandCall, chat_command
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.flow.sessions.forking import parse_topic
from gatepost.store.sessions import forks

SEVERAL = "Several agents are in this chat. Ask the one that you mean to fork its conversation."
NOTHING = "There is no conversation here that could be forked."


@chat_command(
    "fork",
    right=CommandRight.MEMBER,
    help="fork this conversation: the topic (thread) that you name goes on with what was said here",
    usage="TOPIC",
)
def fork(call: CommandCall) -> IntakeResult:
    """The files are copied once this is committed, and the answer comes with the new conversation."""
    if len(call.targets) != 1:
        return call.refuse(SEVERAL)
    try:
        topic = parse_topic(call.command.rest.removeprefix("#"))
    except Invalid as error:
        return call.refuse(f"`/fork TOPIC`: {error.why}.")
    found = call.list_sessions()
    if not found:
        return call.refuse(NOTHING)
    forks.add_wanted(call.case.db, call.case.id, found[0][1].id, topic)
    return replace(call.end(notified=False), forks=True)
