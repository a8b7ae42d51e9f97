"""Spoken messages. The sound is made once for the same words in the same voice, and kept."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core import ids
from gatepost.core.errors import GatepostError, Invalid, Refused, SetupError, Unavailable, Unsupported
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.egress import speech
from gatepost.egress.call_payments import CallPayments
from gatepost.egress.contract import CallCost, Spender
from gatepost.egress.http import HttpRefusal
from gatepost.egress.prices import find_price, load_own_prices
from gatepost.egress.speech import Utterance
from gatepost.egress.upstream import Bill, VendorBaseUrl
from gatepost.flow.gateways.folder_check import check_here
from gatepost.flow.group_egress import SpenderSecrets, StoreBudget
from gatepost.messages.outbound import Op, OutboundFile
from gatepost.messages.text import clean
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.money.costs import TokenCounts
from gatepost.store.port import Db
from gatepost.store.rights.requests import BoundFact, BoundKind, BoundReads
from gatepost.store.rights.secrets import SecretReader
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, tool
from gatepost.tools.kit import outbox_effects, outgoing_files
from gatepost.tools.kit.outbox_effects import Room, SendReceipt

LONGEST_TEXT = 5000  # bytes
LONGEST_VOICE = 100
LARGEST_PERSONA = 400_000  # bytes
MOST_KEPT = 500  # sounds
SUFFIXES = (".ogg", ".wav")
_FRONT = re.compile(r"---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_VOICE = re.compile(r"^voice:[ \t]*(.*)$", re.MULTILINE)


async def _read_voice(call: ToolCall, arguments: Mapping[str, Any]) -> BoundReads:
    """A group's own voice stands in a file that its agent can change."""
    chosen = await _choose_voice(call, arguments.get("voice"))
    model = speech.describe_model(call.deps.config)
    return BoundReads(facts=(BoundFact(BoundKind.VOICE, "voice", f"{model} {chosen}", chosen),))


@tool(
    tier=Tier.AGENT,
    scoped_by="chatJid",
    group="messages",
    effects=(Subject.SPEAK, Subject.SPEND),
    reads=_read_voice,
)
async def send_voice(
    call: ToolCall,
    text: Annotated[Body, Meta(description="What to say, as it is spoken: no Markdown. At most 5000 bytes.")],
    voice: Annotated[str | None, Meta(description="A voice's name. Leave it out for your own.")] = None,
    chatJid: Room = None,
) -> SendReceipt:
    """Say something aloud: a voice message, where people asked for one or answer with one themselves. It costs money.

    For what is to be read, copied or looked up again use send or reply.
    """
    outbox_effects.require_feature(call, Op.VOICE)
    said = clean(text).strip()
    if not said or len(said.encode()) > LONGEST_TEXT:
        raise Invalid("text", f"has {len(said.encode())} bytes; 1 to {LONGEST_TEXT} can be spoken")
    config, platform = call.deps.config, call.deps.channels.get_kind(call.place.instance).name
    base, command = speech.find_speech_base(config), speech.split_command(config)
    if base is None and not command:
        hint = f"use send with the same text; nothing makes speech here ({speech.BASE.name} or {speech.COMMAND.name})"
        raise Unsupported(call.tool, platform, hint)
    utterance = Utterance(said, await _choose_voice(call, voice), speech.describe_model(config))
    sound = await _get_sound(call, utterance, base, command)
    keep = outgoing_files.get_copy_folder(call)
    await outgoing_files.set_aside(call, (await call.in_thread(sound.stat)).st_size)
    size = await call.in_thread(_copy, sound, keep)
    kind = sound.suffix.removeprefix(".")
    file = OutboundFile(name=f"voice.{kind}", mime=f"audio/{kind}", path=str(keep / "0"), size=size)

    def give(db: Db) -> list[OutboxEffect]:
        payload = {"text": said, "files": outbox_effects.render_files([file])}
        return [outbox_effects.add_effect(db, call, Op.VOICE, payload, call.place.thread, said)]

    try:
        return await outbox_effects.commit_effects(call, give)
    except GatepostError:
        await outgoing_files.discard_copies(call)
        raise


async def _choose_voice(call: ToolCall, voice: str | None) -> str:
    """The one that is named, else the group's own, else the gateway's; of a call that was allowed, the one of then."""
    if named := _name(voice):
        return named
    if call.approved is not None and not call.approved.input.get("voice"):
        for each in call.approved.reads.facts:
            if each.kind is BoundKind.VOICE:
                return each.shown
    await check_here(call.deps.store, call.deps.home, call.caller.folder)
    own = await call.in_thread(_own_voice, call.deps.home, call.caller.folder)
    return own or call.deps.config[speech.VOICE]


class _SpeechPrice(Struct, frozen=True):
    """The price of having something said: all of it, once the endpoint may have heard it."""

    model: str
    worst: int
    tokens: TokenCounts = TokenCounts()

    def actual(self, bill: Bill) -> CallCost:
        return CallCost(0 if bill.free else self.worst)


async def _get_sound(call: ToolCall, said: Utterance, base: VendorBaseUrl | None, command: Sequence[str]) -> Path:
    """From the folder of kept sounds, or made; at an endpoint, it is paid for."""
    folder = call.deps.home.media / "voice"
    kept = await call.in_thread(_find_kept, folder, said.digest)
    if kept is not None:
        return kept
    made = await (_run_command(call, command, said) if base is None else _ask_endpoint(call, base, said))
    kept = folder / f"{said.digest}.{speech.find_sound_type(made)}"
    await call.in_thread(_write_sound, kept, made)
    return kept


async def _run_command(call: ToolCall, command: Sequence[str], said: Utterance) -> bytes:
    """The words stay on this machine and cost nothing, so nothing is booked."""
    deps, words = call.deps, speech.put_voice(command, said.voice)
    what = f"the program {words[0]}"
    if deps.programs is None:
        raise Unavailable(what, "no sandbox runs in this process; use send with the same text")
    await check_here(deps.store, deps.home, call.caller.folder)
    given = said.text.encode() + b"\n"  # a program that reads lines waits for the end of one
    try:
        made = await deps.programs.pipe(call.caller.folder, words, given, speech.LARGEST_SOUND, speech.COMMAND_S)
        if not speech.find_sound_type(made):
            raise Unavailable(what, "it wrote neither Opus in Ogg nor a wav")
    except Unavailable as error:
        raise Unavailable(error.what, f"{error.why}; use send with the same text") from None
    return made


async def _ask_endpoint(call: ToolCall, base: VendorBaseUrl, said: Utterance) -> bytes:
    deps = call.deps
    spender = Spender(call.caller.folder, call.caller.session_id or "", call.turn.id if call.turn else None)
    worst = _price(call, said)
    purse = StoreBudget(deps.store, deps.clock, outbox_effects.get_channels(call), deps.events)
    till = CallPayments(purse)
    try:
        async with till.paid(spender, _SpeechPrice(said.model, worst)) as bill:
            key = await _key(call, base, spender)  # not before: what is asked for is on record as used
            await call.note()  # the words leave the gateway: that is on record before they do
            return await speech.request_speech(base, key, said, bill, may_act=deps.may_act)
    except HttpRefusal as no:
        raise Refused(call.caller.folder, call.tool, why=no.reason) from None
    finally:
        await till.close()  # nothing is held back for a call that is over, however it ended


async def _key(call: ToolCall, base: VendorBaseUrl, spender: Spender) -> str:
    deps = call.deps
    keys = SpenderSecrets(deps.store, SecretReader(deps.store, Keyring(deps.home), deps.clock))
    for name in speech.key_names(base, deps.config):
        if key := await keys.get(name, spender, f"speech at {base.host}", base.origins):
            return key
    return ""


def _price(call: ToolCall, said: Utterance) -> int:
    listed = find_price(said.model, load_own_prices(call.deps.home, call.deps.config))
    worst = listed.of_speech(said.text) if listed else None
    if worst is None:
        raise SetupError(
            f"the model {said.model!r} has no price for `characters`, so nothing is spoken; the operator can add one to"
            " the file of the setting prices.file, or set tts.model"
        )
    return worst


def _name(voice: str | None) -> str:
    name = " ".join(clean(voice or "").split())
    if len(name) > LONGEST_VOICE:
        raise Invalid("voice", f"has {len(name)} characters; a voice's name has at most {LONGEST_VOICE}")
    return name


def _own_voice(home: Home, folder: str) -> str:
    """`voice:` at the top of PERSONA.md; '' if it names none. The file may be anybody's inside."""
    try:
        with open_untrusted(home.group(folder)) as root:
            text = root.read_bytes("PERSONA.md", LARGEST_PERSONA).decode(errors="replace")
    except GatepostError:
        return ""
    front = _FRONT.match(text)
    found = _VOICE.search(front[1]) if front else None
    return " ".join(found[1].split()).strip("\"'")[:LONGEST_VOICE] if found else ""


def _find_kept(folder: Path, digest: str) -> Path | None:
    """The sound that was made before; what is used stays longest."""
    for suffix in SUFFIXES:
        with suppress(OSError):
            os.utime(found := folder / f"{digest}{suffix}")
            return found
    return None


def _write_sound(path: Path, sound: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{ids.new('part')}")
    part.write_bytes(sound)
    part.rename(path)
    kept = [each for each in path.parent.iterdir() if each.suffix in SUFFIXES]
    sounds = sorted(kept, key=lambda each: each.stat().st_mtime_ns)
    for old in sounds[:-MOST_KEPT]:
        with suppress(OSError):
            old.unlink()


def _copy(sound: Path, keep: Path) -> int:
    keep.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(shutil.copyfile(sound, keep / "0")).stat().st_size
