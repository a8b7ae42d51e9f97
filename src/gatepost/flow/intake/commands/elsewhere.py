"""Commands that are acted on elsewhere: answers to requests, codes, and what the agent itself understands."""

from gatepost.flow.intake.commands.contract import declare_command
from gatepost.flow.intake.slash_commands import CommandAction, CommandRight

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
