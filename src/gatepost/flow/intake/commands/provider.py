"""/model and /provider: the conversation's own, in the place of its group's. They hold from the next turn on."""

from gatepost.core.errors import did_you_mean
from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult, TargetAccess, find_or_add_session
from gatepost.flow.intake.commands.contract import CommandCall, chat_command, is_commanding
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.flow.sessions.sandbox import effective_group
from gatepost.store.rights import audit
from gatepost.store.sessions import sessions
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session

DEFAULT = "default"
MOST_LISTED = 40  # names in one answer
LONGEST_NAME = 100
SEVERAL = "Several agents are in this chat. Set it for one of them in a chat of its own."
ASKS_FIRST = (
    "This agent asks people before it acts. Only an owner or an admin may give it another provider, which goes by rules"
    " of its own."
)
NO_MODELS = "{} has no models to choose from here."


@chat_command(
    "model",
    right=CommandRight.MEMBER,
    help="show or set the model of this conversation; `default` takes it back",
    usage="[NAME]",
    needs_choices=True,
)
def choose_model(call: CommandCall) -> IntakeResult:
    target, session = _find_target(call)
    if target is None:
        return call.refuse(SEVERAL)
    group = call.load_group(target.folder, session)
    known, wanted = effective_group.list_models(call.facts.choices, group), call.command.rest
    own = session.model if session is not None else ""
    if not wanted:
        usual = group.model or "the agent's own choice"
        now = f"Model: {own} (of this conversation; usual: {usual})" if own else f"Model: {usual}"
        return call.answer("\n".join([now, _render_choices(known, NO_MODELS.format(group.provider), "model")]))
    if wanted == DEFAULT:
        return _set_model(call, target, "")
    if wanted not in known and wanted != group.model:
        return call.refuse(_render_unknown(wanted, known, NO_MODELS.format(group.provider), "model"))
    return _set_model(call, target, wanted)


@chat_command(
    "provider",
    right=CommandRight.MEMBER,
    help="show or set the provider of this conversation; `default` takes it back",
    usage="[NAME]",
    needs_choices=True,
)
def choose_provider(call: CommandCall) -> IntakeResult:
    target, session = _find_target(call)
    if target is None:
        return call.refuse(SEVERAL)
    group = call.load_group(target.folder, None)
    known, wanted = effective_group.list_providers(call.context.db, call.facts.choices, group), call.command.rest
    own = session.provider if session is not None else ""
    if not wanted:
        now = (
            f"Provider: {own} (of this conversation; usual: {group.provider})" if own else f"Provider: {group.provider}"
        )
        return call.answer("\n".join([now, _render_choices(known, "", "provider")]))
    if wanted == DEFAULT:
        return _set_provider(call, target, group, "")
    if wanted != group.provider and not is_commanding(target) and _asks_first(call, group):
        return call.refuse(ASKS_FIRST)
    if wanted not in known:
        return call.refuse(_render_unknown(wanted, known, "", "provider"))
    return _set_provider(call, target, group, wanted)


def _asks_first(call: CommandCall, group: Group) -> bool:
    """Return True if the group wants its agent to ask before it acts. Another provider would go by a mode of its
    own."""
    spec = call.facts.choices.specs.get(group.provider)
    chosen = group.options.get(spec.mode_option) if spec is not None else None
    return bool(spec is not None and chosen and spec.modes and chosen != spec.modes[0].id)


def _find_target(call: CommandCall) -> tuple[TargetAccess | None, Session | None]:
    """The one agent here, and its conversation if that has begun."""
    if len(call.targets) != 1:
        return None, None
    found = call.list_sessions()
    return call.targets[0], found[0][1] if found else None


def _set_model(call: CommandCall, target: TargetAccess, model: str) -> IntakeResult:
    session = find_or_add_session(call.context, target.chosen)
    if session.model == model:
        return call.answer(f"The model is {model} already." if model else "This conversation has no model of its own.")
    sessions.set_model(call.context.db, session.id, model)
    _record(call, session, "session.model", model)
    said = f"The model of this conversation is {model}" if model else "This conversation has its agent's model again"
    return replace(call.answer(f"{said}, from the next turn on."), renew=(session.id,))


def _set_provider(call: CommandCall, target: TargetAccess, group: Group, provider: str) -> IntakeResult:
    """The group's own is not written down: the conversation then follows its group."""
    own, session = provider if provider != group.provider else "", find_or_add_session(call.context, target.chosen)
    if session.provider == own:
        return call.answer(f"The provider is {own or group.provider} already.")
    sessions.set_provider(call.context.db, session.id, own)
    _record(call, session, "session.provider", own)
    said = f"The provider of this conversation is {own or group.provider}, with its usual model, from the next turn on."
    return replace(call.answer(f"{said} It is told what was said before."), renew=(session.id,))


def _record(call: CommandCall, session: Session, action: str, value: str) -> None:
    details = {"session": session.id, "folder": session.folder, "value": value}
    by = call.context.arrival.inbound.sender
    audit.append(call.context.db, audit.AuditRecord(call.context.now, by, action, "done", details))


def _render_choices(known: list[str], otherwise: str, word: str) -> str:
    if not known:
        return otherwise
    more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
    return f"There are: {', '.join(known[:MOST_LISTED])}{more}. /{word} NAME sets one."


def _render_unknown(wanted: str, known: list[str], otherwise: str, word: str) -> str:
    shown = wanted[:LONGEST_NAME]
    near = did_you_mean(shown, known)
    return (
        f"There is no {word} {shown!r} for this conversation{near}. {_render_choices(known, otherwise, word)}".rstrip()
    )
