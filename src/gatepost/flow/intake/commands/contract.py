"""A command of chats: a function, with its declaration above it. It runs in the transaction of its message.

    @chat_command("ping", right=CommandRight.EVERYBODY, help="whether the gateway is there")
    def ping(call: CommandCall) -> IntakeResult:
        return call.answer("pong")

It may read and write the store, and nothing else: the transaction may run twice. Its result says what
follows once it is committed. The dispatcher has judged the sender's rights before.
"""

from collections.abc import Callable

from msgspec import Struct

from gatepost.access.senders import COMMANDING, Rights
from gatepost.core.registry import Registry
from gatepost.flow.intake.accepted_message import CommandFacts, IntakeResult, MessageContext, TargetAccess, find_session
from gatepost.flow.intake.slash_commands import COMMANDS, CommandAction, CommandRight, CommandSpec, SlashCommand
from gatepost.flow.sessions.sandbox.effective_group import load_effective_group
from gatepost.messages.inbound import Receipt
from gatepost.store.messages.inbox import InboxState
from gatepost.store.people import identities
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session


class CommandCall(Struct, frozen=True):
    """A command that its sender may give. `targets`: the agents that it is for, none in a chat without one."""

    context: MessageContext
    command: SlashCommand
    targets: tuple[TargetAccess, ...]
    rights: Rights

    @property
    def facts(self) -> CommandFacts:
        return self.context.arrival.facts or CommandFacts()

    @property
    def folder(self) -> str:
        return self.targets[0].folder if self.targets else ""

    @property
    def names(self) -> tuple[str, ...]:
        """All identities of the sender; the first is the person."""
        return identities.list_names(self.context.db, self.context.arrival.inbound.sender)

    def answer(self, text: str) -> IntakeResult:
        """Say this in the chat; the command is done."""
        self.context.add_notice(text)
        return self.end(notified=True)

    def end(self, *, notified: bool) -> IntakeResult:
        """The command is done. `notified`: something was said in the chat."""
        reason = f"command {self.command.head}"
        return self.context.end(InboxState.ANSWERED, reason, self.rights, self.folder, notified=notified)

    def refuse(self, text: str) -> IntakeResult:
        """It cannot be done now; the words say why, and what to do."""
        self.context.add_notice(text)
        return self.context.end(InboxState.REFUSED, "command_refused", self.rights, self.folder, notified=True)

    def pass_on(self, text: str) -> IntakeResult:
        """Done, and what follows the command's name goes to the agent as a message."""
        self.context.add_notice(text)
        receipt = Receipt(message_id=self.context.id, new=True, state=InboxState.QUEUED)
        return IntakeResult(receipt=receipt, notified=True, passes=True)

    def list_sessions(self) -> list[tuple[TargetAccess, Session]]:
        """The conversations here that there are. Nobody makes one by asking for it."""
        found = ((target, find_session(self.context, target.chosen)) for target in self.targets)
        return [(target, session) for target, session in found if session is not None]

    def load_group(self, folder: str, session: Session | None) -> Group:
        """As its agent runs here: with the conversation's own provider."""
        provider = session.provider if session is not None else ""
        group = load_effective_group(self.context.db, self.facts.config, folder, provider)
        assert group is not None  # the route leads to it
        return group

    def get_agent_name(self, folder: str) -> str:
        group = groups.get(self.context.db, folder)
        return (group.name or folder) if group is not None else folder


def is_commanding(target: TargetAccess) -> bool:
    """Return True if the sender is an owner or an admin of this agent."""
    return target.rights in COMMANDING


CommandHandler = Callable[[CommandCall], IntakeResult]
HANDLERS: Registry[CommandHandler] = Registry("handler of a command of chats")


def chat_command(
    name: str,
    *,
    right: CommandRight,
    help: str,
    usage: str = "",
    urgent: bool = False,
    anywhere: bool = False,
    as_word: bool = False,
    needs_choices: bool = False,
) -> Callable[[CommandHandler], CommandHandler]:
    """Register a function as what the gateway does at `/name`."""

    def register(handler: CommandHandler) -> CommandHandler:
        spec = CommandSpec(
            name=name,
            right=right,
            help=help,
            usage=usage,
            urgent=urgent,
            anywhere=anywhere,
            as_word=as_word,
            needs_choices=needs_choices,
        )
        COMMANDS.add(name, spec, handler.__module__)
        HANDLERS.add(name, handler, handler.__module__)
        return handler

    return register


def declare_command(
    name: str,
    act: CommandAction,
    *,
    right: CommandRight,
    help: str,
    usage: str = "",
    anywhere: bool = False,
    listed: bool = True,
) -> None:
    """Register a command that is acted on elsewhere: by the agent, by nobody, or before a route is looked for."""
    spec = CommandSpec(name=name, act=act, right=right, help=help, usage=usage, anywhere=anywhere, listed=listed)
    COMMANDS.add(name, spec, __name__)
