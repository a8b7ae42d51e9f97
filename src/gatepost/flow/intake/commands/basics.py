"""Commands of the gateway itself: /help, /ping and /chatid. Those that are acted on elsewhere are declared here as
well: answers to requests, codes, and commands of the agent's own program."""

from gatepost.core.languages.catalogue import NAMES, list_languages
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.commands.contract import CommandCall, chat_command, declare_command
from gatepost.flow.intake.slash_commands import CommandAction, CommandRight, render_help
from gatepost.store.people import users


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
    arrival = call.context.arrival
    return call.answer(f"{arrival.address} (channel {arrival.instance})")


@chat_command(
    "language",
    right=CommandRight.EVERYBODY,
    help="the language in which the gateway itself speaks to you",
    usage="LANGUAGE",
    anywhere=True,
)
def choose_language(call: CommandCall) -> IntakeResult:
    known = ", ".join(f"`{each}` ({NAMES.get(each, each)})" for each in list_languages())
    wished, db = call.command.rest.strip().lower(), call.context.db
    if wished not in list_languages():
        return call.refuse(f"Write one of these behind it: {known}.")
    if not users.set_language(db, call.names[0], wished):
        return call.refuse("You are not known here yet. Whoever runs this gateway can let you in.")
    return call.answer("From now on I speak English to you, where I speak for myself.")


def _find_agent(call: CommandCall) -> str:
    """'' for a chat without one."""
    return call.get_agent_name(call.folder) if call.folder else ""


# Who may decide is judged by what the request is about, and a code is itself the right.
declare_command(
    "approve",
    CommandAction.DECIDE,
    right=CommandRight.EVERYBODY,
    help="allow what an agent asks, as it is or with other arguments",
    usage="ID [JSON]",
)
declare_command("deny", CommandAction.DECIDE, right=CommandRight.EVERYBODY, help="do not allow it", usage="ID WORDS")
declare_command(
    "answer", CommandAction.DECIDE, right=CommandRight.EVERYBODY, help="answer what an agent asks", usage="ID WORDS"
)
declare_command(
    "pair",
    CommandAction.PAIR,
    right=CommandRight.EVERYBODY,
    help="be known here as the person whom a code of `gatepost pair` is for",
    usage="CODE",
)
declare_command(
    "join",
    CommandAction.JOIN,
    right=CommandRight.EVERYBODY,
    help="be let in by the code of an invitation",
    usage="CODE",
)

for name, what in (
    ("context", "what fills the agent's context, if the agent has such a command"),
    ("cost", "what the agent itself counts as its cost; /usage is what the gateway booked"),
    ("files", "the files that the agent works with, if it has such a command"),
):
    declare_command(name, CommandAction.PASS, right=CommandRight.ADMIN, help=what, listed=False)

for name in ("config", "doctor", "login", "logout"):
    declare_command(
        name,
        CommandAction.DROP,
        right=CommandRight.EVERYBODY,
        help="nothing: it would reach into the agent's own program",
        listed=False,
    )
