"""Speech: words become sound at an OpenAI-shaped endpoint, or by a program in a sandbox of its own.

The gateway asks the endpoint, never a sandbox; the key stays here."""

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from gatepost.core.errors import Invalid, SetupError, Unavailable
from gatepost.core.process.fencing import FenceCheck, always
from gatepost.core.settings import Config, setting
from gatepost.egress.endpoints import gateway_base, parse_command
from gatepost.egress.upstream import Bill, VendorBaseUrl, parse_base_url, post_once
from gatepost.store.rights.secrets import OPENAI_API_KEY

BASE = setting(
    "tts.base_url",
    "",
    help="Where an OpenAI-shaped endpoint makes speech, like https://api.openai.com/v1; local ones too. Without it and"
    " without tts.command, agents cannot send voice messages. Its key is the secret TTS_API_KEY.",
)
COMMAND = setting(
    "tts.command",
    "",
    help="A program that makes speech in a sandbox of its own, with its arguments. It reads the words from its standard"
    " input and writes Opus in Ogg, or a wav, to its standard output. {voice} stands for the voice.",
)
MODEL = setting("tts.model", "tts-1", help="The model that speaks. It needs a price, by the million `characters`.")
VOICE = setting("tts.voice", "alloy", help="The voice of agents whose PERSONA.md names none (`voice:` at its top).")

TTS_API_KEY = "TTS_API_KEY"
LONGEST_WAIT_S = 15.0
LARGEST_SOUND = 16 * 1024 * 1024
COMMAND_S = 60.0  # for a program; waiting for those of others takes no longer, either
VOICE_WORD = "{voice}"


class Utterance(Struct, frozen=True):
    text: str
    voice: str
    model: str

    @property
    def digest(self) -> str:
        """The same words in the same voice are the same sound."""
        return hashlib.sha256(msgspec.json.encode((self.model, self.voice, self.text))).hexdigest()


def find_speech_base(config: Config) -> VendorBaseUrl | None:
    """None: nobody said where speech is made."""
    return parse_base_url(BASE.name, config[BASE], default=False) if config[BASE].strip() else None


def split_command(config: Config) -> list[str]:
    """The program and its arguments, [] if none is set. Raises SetupError."""
    return parse_command(config, COMMAND, instead_of=BASE)


def describe_model(config: Config) -> str:
    """Return what makes the sound: the command as it is set, else the model."""
    return config[COMMAND].strip() or config[MODEL]


def put_voice(command: Sequence[str], voice: str) -> list[str]:
    """Return the command for this voice. A name is one argument, and never an option of the program."""
    if voice.startswith("-") and any(VOICE_WORD in word for word in command):
        raise Invalid("voice", "the name of a voice does not begin with '-'")
    return [word.replace(VOICE_WORD, voice) for word in command]


def find_sound_type(sound: bytes) -> str:
    """Return `ogg` or `wav`, by how it begins; '' for anything else."""
    if sound.startswith(b"OggS"):
        return "ogg"
    return "wav" if sound.startswith(b"RIFF") and sound[8:12] == b"WAVE" else ""


def key_names(base: VendorBaseUrl, config: Config) -> tuple[str, ...]:
    """The secrets that this endpoint may see, the first that there is: a model's key goes to its own host alone."""
    models = gateway_base(config, "openai")
    return (TTS_API_KEY, OPENAI_API_KEY) if models.origin == base.origin else (TTS_API_KEY,)


async def request_speech(
    base: VendorBaseUrl,
    key: str,
    said: Utterance,
    bill: Bill,
    *,
    wait_s: float = LONGEST_WAIT_S,
    may_act: FenceCheck = always,
) -> bytes:
    """Return the spoken text as Opus in Ogg. The bill holds the most that it may cost, even if the request fails."""
    body = {"model": said.model, "voice": said.voice, "input": said.text, "response_format": "opus"}
    url = f"{base.url}/audio/speech"
    sound = await post_once(url, key, "audio/ogg", body, bill, wait_s, may_act, _refuse)
    if find_sound_type(sound) != "ogg":
        raise _trouble("it did not answer with Opus in Ogg")
    return sound


def _refuse(status: int, why: str) -> Exception:
    if status in (401, 403):
        return SetupError(f"the speech endpoint refuses the gateway's key; set the secret {TTS_API_KEY}")
    return _trouble(why)


def _trouble(why: str) -> Unavailable:
    return Unavailable("the speech endpoint", f"{why}; use send with the same text")
