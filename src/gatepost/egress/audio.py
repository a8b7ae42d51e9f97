"""Recordings to be transcribed: the form is read strictly and written anew, the price is that of its longest length.

How long a recording is stands in it, in many ways and as its maker likes; how large it is, is a fact. So what is set
aside is for the longest that so many bytes can be, at the lowest rate of any codec in use. Pure.

An endpoint that transcribes for every group is set here, too: which model it is asked for, and at what price, the host
says and no sandbox.
"""

import re
import secrets

from msgspec import Struct, field

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.late_pattern import late_pattern
from gatepost.core.money import parse_usd
from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.egress.contract import CallCost
from gatepost.egress.endpoints import BASES, OPENAI_BASE, parse_command
from gatepost.egress.http import HttpRefusal
from gatepost.egress.prices import Price
from gatepost.egress.upstream import Bill, VendorBaseUrl, parse_base_url
from gatepost.store.money.costs import TokenCounts

MODEL = setting(
    "media.transcribe", "", help="The model that makes transcripts of recordings, such as gpt-4o-mini-transcribe."
)
BASE = setting(
    "media.transcribe_base_url",
    "",
    help="Where an OpenAI-shaped endpoint makes transcripts for every group, such as a whisper server on this machine."
    " Empty: the OpenAI endpoint of the group makes them. Its key is the secret TRANSCRIBE_API_KEY.",
)
PRICE = setting(
    "media.transcribe_price",
    "",
    help="The price of a minute of sound at that endpoint, in USD; 0 for a server of your own. Empty: as the price list"
    " says of the model.",
)
COMMAND = setting(
    "media.transcribe_command",
    "",
    help="A program that makes transcripts inside the sandbox of each agent, with its arguments. {file} stands for the"
    " recording; the program prints the words.",
)
ENDPOINT_SETTINGS = (*BASES.values(), BASE, MODEL, PRICE)  # that say where models are
DEFAULT_MODEL = "whisper-1"  # the name that most servers take for the model that they have
VENDOR = "transcribe"
TRANSCRIBE_API_KEY = "TRANSCRIBE_API_KEY"

LARGEST_FILE = 25 * 1024 * 1024  # as the vendor has it
SLOWEST = 125  # bytes a second: less is no speech in any codec
ENDINGS = frozenset(("flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm"))
MOST_PARTS = 8  # of a form, with its end: what comes behind them is no end
LARGEST_PART_HEAD = 4 * 1024  # bytes
_FIELDS = frozenset(("file", "model", "language", "response_format"))
_TYPE = late_pattern(r"multipart/form-data;[ \t]*boundary=(\"?)([0-9A-Za-z'()+_,./:=?-]{1,70})\1\Z", re.IGNORECASE)
_DISPOSITION = late_pattern(r'form-data; name="([a-z_]{1,40})"(?:; filename="([^"\r\n]{1,200})")?\Z')
_PLAIN = late_pattern(r"[\x21-\x7e]{1,200}\Z")


class Recording(Struct, frozen=True):
    model: str
    data: bytes
    ending: str
    language: str = ""
    # Nobody inside knows it beforehand: what a recording holds cannot pass for a field of the form.
    boundary: str = field(default_factory=lambda: f"gatepost-{secrets.token_hex(16)}")

    @property
    def kind(self) -> str:
        return f"multipart/form-data; boundary={self.boundary}"

    @property
    def longest(self) -> int:
        """Seconds."""
        return -(-len(self.data) // SLOWEST)

    def render(self) -> bytes:
        fields = {"model": self.model, "response_format": "json"} | (
            {"language": self.language} if self.language else {}
        )
        parts = [f'form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
        about = f'form-data; name="file"; filename="audio.{self.ending}"\r\ncontent-type: application/octet-stream'
        parts.append(about.encode() + b"\r\n\r\n" + self.data)
        mark = f"--{self.boundary}".encode()
        return b"".join(mark + b"\r\ncontent-disposition: " + part + b"\r\n" for part in parts) + mark + b"--\r\n"


class TranscriptionEndpoint(Struct, frozen=True):
    """The endpoint that transcribes for every group."""

    base: VendorBaseUrl
    model: str
    price: Price | None = None  # None: as the price list says


def find_transcription_endpoint(config: Config) -> TranscriptionEndpoint | None:
    """None if no endpoint is set. Raises SetupError."""
    if not config[BASE].strip():
        return None
    # As a group's own: a key that was set for another endpoint, or for none, is not sent here.
    base = parse_base_url(BASE.name, config[BASE], default=False, own=True)
    vendors = parse_base_url(OPENAI_BASE.name, OPENAI_BASE.default, default=True)
    model = config[MODEL].strip() or DEFAULT_MODEL
    if not _PLAIN.match(model):
        raise SetupError(f"{MODEL.name} = {model!r} is not the name of a model")
    return TranscriptionEndpoint(replace(base, default=base.origin == vendors.origin), model, _read_price(config))


def _read_price(config: Config) -> Price | None:
    if not config[PRICE].strip():
        return None
    try:
        minute = parse_usd(config[PRICE].strip(), PRICE.name)
    except Invalid as error:
        raise SetupError(str(error)) from None
    return Price(input=0, output=0, cache_read=0, cache_write=0, cache_write_long=0, minute=minute)


def split_command(config: Config) -> list[str]:
    """The program and its arguments, [] if none is set. Raises SetupError."""
    return parse_command(config, COMMAND, instead_of=BASE)


class TranscriptCostBound(Struct, frozen=True):
    """The most that a transcript may cost."""

    model: str
    price: Price
    worst: int
    tokens: TokenCounts = TokenCounts()  # sound is paid for by the second

    def actual(self, bill: Bill) -> CallCost:
        """By seconds or by tokens, as the vendor tells; if it tells neither, all of it."""
        measured = bill.measured
        if bill.free:
            return CallCost(0)
        if measured.seconds is not None:
            return CallCost(self.price.of_sound(measured.seconds))
        if measured.usage is None or not measured.usage.input or not self.price.input:  # nobody can count by tokens
            return CallCost(self.worst, measured=self.worst == 0)
        return CallCost(self.price.of(measured.usage), measured.usage)


def read_form(kind: str, raw: bytes) -> Recording:
    """From a request's content type and body. Raises Refusal for whatever is not exactly such a form."""
    fields: dict[str, tuple[str | None, bytes]] = {}
    for name, file, content in _parts(kind, raw):
        if name not in _FIELDS or name in fields:
            raise HttpRefusal(400, f"{name}: a transcript takes {', '.join(sorted(_FIELDS))}, each once")
        fields[name] = (file, content)
    file, data = fields.pop("file", (None, b""))
    ending = (file or "").rpartition(".")[2].lower()
    if file is None or ending not in ENDINGS:
        raise HttpRefusal(400, f"file: a recording whose name ends with {', '.join(sorted(ENDINGS))}")
    if not data or len(data) > LARGEST_FILE:
        raise HttpRefusal(413 if data else 400, f"file: is empty or larger than {LARGEST_FILE} bytes")
    words = {name: _word(name, *given) for name, given in fields.items()}
    if words.get("response_format", "json") != "json":
        raise HttpRefusal(400, "response_format: json is what is given")
    if "model" not in words:
        raise HttpRefusal(400, "model: a request names its model")
    return Recording(words["model"], data, ending, words.get("language", ""))


def _word(name: str, file: str | None, content: bytes) -> str:
    word = content.decode("latin-1")
    if file is not None or not _PLAIN.match(word):
        raise HttpRefusal(400, f"{name}: is one plain word")
    return word


def _parts(kind: str, raw: bytes) -> list[tuple[str, str | None, bytes]]:
    found = _TYPE.match(kind)
    if not found:
        raise HttpRefusal(400, "a recording comes as multipart/form-data")
    first, *parts = (b"\r\n" + raw).split(f"\r\n--{found[2]}".encode(), MOST_PARTS)
    last = parts.pop() if parts else b""
    if first or last not in (b"--", b"--\r\n") or not all(part.startswith(b"\r\n") for part in parts):
        raise HttpRefusal(400, "the form is malformed")
    return [_part(part[2:]) for part in parts]


def _part(part: bytes) -> tuple[str, str | None, bytes]:
    head, empty, content = part.partition(b"\r\n\r\n")
    if len(head) > LARGEST_PART_HEAD:
        raise HttpRefusal(400, f"a part of the form has a head of more than {LARGEST_PART_HEAD} bytes")
    name: re.Match[str] | None = None
    for line in head.decode("latin-1").split("\r\n"):
        key, _, value = line.partition(":")
        if key.lower() == "content-disposition" and name is None:
            name = _DISPOSITION.match(value.strip())
        elif key.lower() != "content-type":
            raise HttpRefusal(400, "a part of the form says more than its name and type")
    if not empty or name is None:
        raise HttpRefusal(400, "a part of the form has no plain name")
    return name[1], name[2], content


def make_transcript_cost_bound(recording: Recording, price: Price, *, listed: bool = True) -> TranscriptCostBound:
    """`listed`: False for a price that the operator set for this endpoint, which may be 0. Raises Refusal."""
    if listed and not price.minute:
        raise HttpRefusal(400, f"{recording.model[:100]!r} has no price for a minute; it transcribes nothing here")
    seconds = min(recording.longest, price.longest_s) if price.longest_s else recording.longest
    return TranscriptCostBound(recording.model, price, price.of_sound(seconds))
