"""/remember, /memory and /forget: what the agent of a chat keeps, as the people there may know it."""

from gatepost.access.senders import COMMANDING
from gatepost.flow.intake.accepted_message import IntakeResult, record_room
from gatepost.flow.intake.commands.contract import CommandCall, chat_command
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.store.memory import memories
from gatepost.store.memory.memories import (
    LONGEST_TEXT,
    Audience,
    MemoryTrust,
)
from gatepost.store.rights import audit

MOST_SHOWN, LONGEST_SHOWN = 20, 200
NO_AGENT = "No agent is set up for this chat."
NOTHING = "Nothing is remembered here yet. `/remember TEXT` has me keep something."


def _find_audience(call: CommandCall) -> Audience:
    arrival = call.context.arrival
    asker = arrival.inbound.sender
    record_room(call.context)  # what is said in private is known to be so from the first word on
    return memories.find_audience(call.context.db, call.folder, arrival.instance, arrival.inbound.address, (asker,))


@chat_command("remember", right=CommandRight.MEMBER, help="have the agent keep this for later", usage="TEXT")
def remember(call: CommandCall) -> IntakeResult:
    text, case = call.command.rest.strip(), call.context
    if not call.folder:
        return call.refuse(NO_AGENT)
    if not text or len(text) > LONGEST_TEXT:
        return call.refuse(f"Write what to remember behind it, in at most {LONGEST_TEXT} characters.")
    audience = _find_audience(call)
    speaker = case.arrival.inbound.sender
    entry = audience.make_memory(text, _judge(call), case.now, message_id=case.id, speaker=speaker)
    if reason := memories.make_room(case.db, entry):
        return call.refuse(f"{reason[0].upper()}{reason[1:]}.")
    made = memories.add(case.db, entry)
    _audit(call, "memory.add", made.id)
    where = "for you alone" if audience.names else "for this chat"
    return call.answer(f"Remembered {where}. `/forget {made.id}` drops it.")


def _judge(call: CommandCall) -> MemoryTrust:
    return MemoryTrust.STRANGER if call.rights == "guest" else MemoryTrust.MEMBER


def _audit(call: CommandCall, action: str, memory_id: int) -> None:
    details = {"memory": memory_id, "folder": call.folder}
    by = call.context.arrival.inbound.sender
    audit.append(call.context.db, audit.AuditRecord(call.context.now, by, action, "done", details))


@chat_command("memory", right=CommandRight.MEMBER, help="what the agent remembers that may be told here")
def show(call: CommandCall) -> IntakeResult:
    if not call.folder:
        return call.refuse(NO_AGENT)
    found = memories.list_newest(call.context.db, _find_audience(call), call.context.now, MOST_SHOWN)
    lines = [f"#{each.id} {_shorten(f'{each.about}: {each.text}' if each.about else each.text)}" for each in found]
    return call.answer("\n".join(lines) or NOTHING)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SHOWN else f"{line[: LONGEST_SHOWN - 1]}…"


@chat_command(
    "forget", right=CommandRight.MEMBER, help="drop what is remembered, by the number in /memory", usage="NUMBER"
)
def forget(call: CommandCall) -> IntakeResult:
    if not call.folder:
        return call.refuse(NO_AGENT)
    said, case = call.command.rest.strip(), call.context
    number = int(said) if said.isascii() and said.isdigit() and len(said) < 19 else 0
    entry = memories.get_visible(case.db, _find_audience(call), number, case.now)
    if entry is None or entry.folder != call.folder:
        return call.refuse("There is no such entry here. /memory shows them with their numbers.")
    if entry.speaker not in call.names and call.rights not in COMMANDING:
        return call.refuse("Somebody else said that. An admin of this agent can drop it.")
    memories.end(case.db, [entry.id], case.arrival.inbound.sender, case.now, _judge(call))
    _audit(call, "memory.forget", entry.id)
    return call.answer(f"Forgotten: {_shorten(entry.text)}")
