"""Commands that tell about the gateway itself: /help, /ping, /chatid."""

from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.commands.contract import CommandCall, chat_command
from gatepost.flow.intake.slash_commands import CommandRight, render_help


@chat_command("help", right=CommandRight.EVERYBODY, help="this list", anywhere=True)
def answer_help(call: CommandCall) -> IntakeResult:
    return call.answer(render_help(call.rights, _find_agent(call)))


@chat_command(
    "ping",
    right=CommandRight.EVERYBODY,
    help="whether the gateway is there, and which agent this chat goes to",
    anywhere=True,
)
def answer_ping(call: CommandCall) -> IntakeResult:
    agent = _find_agent(call)
    return call.answer(f"pong: this chat goes to {agent}" if agent else "pong: no agent is set up for this chat")


@chat_command("chatid", right=CommandRight.EVERYBODY, help="the address of this chat", anywhere=True)
def answer_chatid(call: CommandCall) -> IntakeResult:
    arrival = call.case.arrival
    return call.answer(f"{arrival.address} (channel {arrival.instance})")


def _find_agent(call: CommandCall) -> str:
    """'' for a chat without one."""
    return call.get_agent_name(call.folder) if call.folder else ""
