"""Prices: what the tokens of a model cost, in millionths of a USD for a million tokens. Data, in `prices.toml`.

A model without a price has none guessed for it: who asks gets None, and refuses the call. The operator's own file is
read anew when it has changed while the gateway runs. A price is put into it as a person would do it; everything else in
it stays, comments too.
"""

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.core import log, settings, settings_file
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.money import MICRO, PER, parse_usd
from gatepost.core.settings import Config, setting
from gatepost.core.settings_file import write_atomically
from gatepost.egress import tool_costs
from gatepost.egress.tool_costs import ToolCost
from gatepost.store.money.costs import TokenCounts

FILE = setting(
    "prices.file",
    "",
    help="A TOML file with prices of your own, in USD for a million tokens, under the home if it is not absolute."
    " It adds to the built-in list and wins over it: `[my-model]`, then `input = 0.5` and `output = 1.5`.",
)
TOOL, SOURCE = "tool:", "source:"  # what names of tools, and of sources, begin with in a file of prices
SHIPPED = Path(__file__).with_name("prices.toml")
_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)\Z")
NAME = "prices.toml"  # where there is none yet
LONGEST_NAME = 100  # characters of a model's
_HEADER = re.compile(r"\s*\[")
_log = log.get("prices")
Stamp = tuple[int, int, int] | None


class CacheWrite(IntEnum):
    """How long a prompt may be written to its vendor's cache at most."""

    NONE = 0
    SHORT = 1
    LONG = 2


class Price(Struct, frozen=True, kw_only=True):
    """Millionths of a USD for a million tokens, for a minute of sound, or for a million characters spoken."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_long: int  # to stay in the cache for an hour
    long_from: int = 0  # 0: a long question costs no more
    long_input: int = 100  # percent
    long_output: int = 100
    minute: int = 0  # of sound that is transcribed; 0: this model transcribes none
    longest_s: int = 0  # seconds that its vendor takes at most; 0: as many as come
    characters: int | None = None  # a million of them, spoken; None: this model does not speak

    def of_sound(self, seconds: float) -> int:
        """A begun second counts whole, and so does a begun millionth of a USD."""
        return -(-math.ceil(seconds) * self.minute // 60)

    def of_speech(self, text: str) -> int | None:
        """Return what it costs to have this said; None: this model does not speak."""
        return None if self.characters is None else -(-len(text) * self.characters // PER)

    def of(self, usage: TokenCounts, written_long: int = 0) -> int:
        """Return what a call did cost; `written_long` of the tokens written to the cache stay there for an hour."""
        long = min(max(written_long, 0), usage.cache_write)
        asked = (
            usage.input * self.input
            + usage.cache_read * self.cache_read
            + (usage.cache_write - long) * self.cache_write
            + long * self.cache_write_long
        )
        tokens = usage.input + usage.cache_read + usage.cache_write
        return self._sum(asked, usage.output * self.output, tokens)

    def worst(self, input_tokens: int, output_tokens: int, writes: CacheWrite = CacheWrite.LONG) -> int:
        """The most that a call can cost: all that is asked is written to the cache, where that costs the most."""
        written = (0, self.cache_write, max(self.cache_write, self.cache_write_long))[writes]
        dearest = max(self.input, self.cache_read, written)
        return self._sum(input_tokens * dearest, output_tokens * self.output, input_tokens)

    def output_beyond(self, input_tokens: int) -> int:
        """The price of the answer to a question of that length."""
        return self.output * self.long_output // 100 if self._is_long(input_tokens) else self.output

    def _is_long(self, input_tokens: int) -> bool:
        return bool(self.long_from) and input_tokens > self.long_from

    def _sum(self, asked: int, answered: int, input_tokens: int) -> int:
        long = self._is_long(input_tokens)
        hundredths = asked * (self.long_input if long else 100) + answered * (self.long_output if long else 100)
        return -(-hundredths // (100 * PER))  # a begun millionth counts whole


class PriceSource(Struct, frozen=True):
    """The page on which a vendor lists the prices of models whose names begin so, and when they were compared."""

    begins: str
    page: str
    checked: str  # a date


class _ListedTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool in the file, in USD."""

    tokens: int
    use: float = 0
    once: float = 0
    uses: int = 5
    declared: int = 3_000


class _ListedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model in the file, in USD."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_long: float | None = None
    long_from: int = 0
    long_input: int = 100
    long_output: int = 100
    minute: float = 0
    longest_s: int = 0
    characters: float | None = None


def find_price(model: str, own: Mapping[str, Price] | None = None) -> Price | None:
    """Return the price of a model by its name, with or without a date; None if it is unknown. The operator's own list
    wins.

    Some dated ones cost more than the name without a date: these are listed, and a date that is not takes the dearest.
    """
    mine, theirs = own or {}, load_shipped_prices()
    if model in mine:
        return mine[model]
    family = _family(model, mine)
    if family:
        return _dearest([*family, *([theirs[model]] if model in theirs else [])])
    if model in theirs:
        return theirs[model]
    family = _family(model, theirs)
    return _dearest(family) if family else None


def _family(model: str, table: Mapping[str, Price]) -> list[Price]:
    """Return the prices of a dated name's family: the name without a date and with other dates. The list is empty
    unless the name without a date is listed."""
    name = _DATED.sub("", model)
    if name == model or name not in table:
        return []
    return [found for each, found in table.items() if _DATED.sub("", each) == name]


def _dearest(family: Sequence[Price]) -> Price:
    """In everything; of one, that one."""
    longs = [each.long_from for each in family if each.long_from]
    longest = [each.longest_s for each in family]
    spoken = [each.characters for each in family if each.characters is not None]
    return Price(
        input=max(each.input for each in family),
        output=max(each.output for each in family),
        cache_read=max(each.cache_read for each in family),
        cache_write=max(each.cache_write for each in family),
        cache_write_long=max(each.cache_write_long for each in family),
        long_from=min(longs, default=0),
        long_input=max(each.long_input for each in family),
        long_output=max(each.long_output for each in family),
        minute=max(each.minute for each in family),
        longest_s=0 if 0 in longest else max(longest),
        characters=max(spoken, default=None),
    )


@cache
def load_shipped_prices() -> Mapping[str, Price]:
    return read_prices(SHIPPED)


@cache
def load_shipped_sources() -> Sequence[PriceSource]:
    """The most special first."""
    found = [msgspec.convert(table, PriceSource) for name, table in _load(SHIPPED).items() if name.startswith(SOURCE)]
    return sorted(found, key=lambda each: -len(each.begins))


def find_shipped_source(model: str) -> PriceSource:
    return next(each for each in load_shipped_sources() if model.startswith(each.begins))


def load_own_prices(home: Home, config: Config) -> Mapping[str, Price]:
    """The operator's, read at the start; a mistake in it stops the start."""
    return read_prices(home.path / config[FILE]) if config[FILE] else {}


def read_prices(path: Path) -> dict[str, Price]:
    """The models of a file."""
    models = _load(path)
    return {
        name: _read_price(f"{path}: {name}", table)
        for name, table in models.items()
        if not name.startswith((TOOL, SOURCE))
    }


def read_tools(path: Path) -> dict[str, ToolCost]:
    """The tools of a file that vendors run, by type: `["tool:web_search_20250305"]`, fees in USD."""
    tools = ((name, table) for name, table in _load(path).items() if name.startswith(TOOL))
    return {name.removeprefix(TOOL): _read_tool(f"{path}: {name}", table) for name, table in tools}


def _read_tool(where: str, table: Any) -> ToolCost:
    try:
        listed = msgspec.convert(table, _ListedTool)
        use, once = parse_usd(listed.use, "use"), parse_usd(listed.once, "once")
    except (msgspec.ValidationError, Invalid) as error:
        raise SetupError(f"{where}: {error}") from None
    if listed.uses < 1 or min(listed.tokens, listed.declared) < 0:
        raise SetupError(f"{where}: uses is at least 1, tokens and declared are not negative")
    return ToolCost(declared=listed.declared, use=use, once=once, uses=listed.uses, tokens=listed.tokens)


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SetupError(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise SetupError(f"the prices {path} cannot be read: {error.strerror}") from None


def _read_price(where: str, table: Any) -> Price:
    try:
        listed = msgspec.convert(table, _ListedModel)
        plain, answer = parse_usd(listed.input, "input"), parse_usd(listed.output, "output")
        written = plain if listed.cache_write is None else parse_usd(listed.cache_write, "cache_write")
        kept = written if listed.cache_write_long is None else parse_usd(listed.cache_write_long, "cache_write_long")
        minute = parse_usd(listed.minute, "minute")
        spoken = None if listed.characters is None else parse_usd(listed.characters, "characters")
        found = plain if listed.cache_read is None else parse_usd(listed.cache_read, "cache_read")
    except (msgspec.ValidationError, Invalid) as error:
        raise SetupError(f"{where}: {error}") from None
    if min(listed.long_from, listed.longest_s, listed.long_input - 100, listed.long_output - 100) < 0:
        raise SetupError(
            f"{where}: long_from or longest_s is negative, or a long call would cost less than 100 percent"
        )
    return Price(
        input=plain,
        output=answer,
        cache_read=found,
        cache_write=written,
        cache_write_long=kept,
        long_from=listed.long_from,
        long_input=listed.long_input,
        long_output=listed.long_output,
        minute=minute,
        longest_s=listed.longest_s,
        characters=spoken,
    )


class PriceList:
    """The price of a model now. A mistake in the file stops the start; later, the prices of before hold."""

    def __init__(self, home: Home, config: Config) -> None:
        self._home = home
        self.move(config)

    def move(self, config: Config) -> None:
        """The file is another one from now on."""
        own, path = load_own_prices(self._home, config), self._home.path / config[FILE] if config[FILE] else None
        tools = read_tools(path) if path is not None else {}
        self._own, self._tools, self._path, self._stamp = own, tools, path, _stamp(path)

    def __call__(self, model: str) -> Price | None:
        self._reload_if_changed()
        return find_price(model, self._own)

    def tool(self, kind: str) -> ToolCost | None:
        """Return what a tool that a vendor runs adds to a call."""
        self._reload_if_changed()
        return self._tools.get(kind) or tool_costs.find_shipped_cost(kind)

    def _reload_if_changed(self) -> None:
        stamp = _stamp(self._path)
        if self._path is not None and stamp != self._stamp:
            self._stamp = stamp
            try:
                self._own, self._tools = read_prices(self._path), read_tools(self._path)
            except SetupError as error:
                _log.warning("the prices have changed and cannot be read; those of before hold", error=str(error))


def _stamp(path: Path | None) -> Stamp:
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if found is not None else None


def parse_price(text: str) -> Price:
    """`IN/OUT` in USD for a million tokens, or `0`."""
    asked, slash, answered = text.partition("/")
    try:
        plain = parse_usd(asked, "price")
        answer = parse_usd(answered, "price") if slash else plain
        if plain and not slash:
            raise Invalid("price", "one amount")
    except Invalid:
        usage = "write IN/OUT, like 0.5/1.5 (USD for a million tokens), or 0 if it is free"
        raise Invalid("price", f"{text[:40]!r}: {usage}") from None
    return Price(input=plain, output=answer, cache_read=plain, cache_write=plain, cache_write_long=plain)


def put_own_price(home: Home, model: str, given: Price) -> None:
    """Write a price into the operator's own file, which is made and named in the settings if there is none."""
    now = settings.load_declared(home.path, FILE)[FILE]
    if model.startswith((TOOL, SOURCE)):
        raise Invalid("model", f"{model[:80]} is no name of a model; write it into {now or NAME} yourself")
    write_price(home.path / (now or NAME), model, given)
    if not now:
        settings_file.set_setting(home.path / "gatepost.toml", FILE.name, NAME)


def write_price(path: Path, model: str, given: Price) -> None:
    """Raises SetupError if the file is written in a way that this does not know; it is left alone then."""
    try:
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        before: dict[str, Any] = tomllib.loads(old)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SetupError(f"{path} cannot be read: {error}") from None
    numbers = {"input": given.input / MICRO, "output": given.output / MICRO}
    new = _changed(old, model, numbers) if model in before else _added(old, model, numbers)
    wanted = {**before, model: {**before.get(model, {}), **numbers}}
    if _reads(new) != wanted:
        lines = ", ".join(f"{name} = {value:g}" for name, value in numbers.items())
        raise SetupError(f"{path} is left alone; write there yourself, under [{json.dumps(model)}]: {lines}")
    write_atomically(path, new)


def _added(text: str, model: str, numbers: dict[str, float]) -> str:
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    lines = "".join(f"{name} = {_number(value)}\n" for name, value in numbers.items())
    return f"{text}{gap}[{json.dumps(model, ensure_ascii=False)}]\n{lines}"


def _changed(text: str, model: str, numbers: dict[str, float]) -> str:
    lines = text.splitlines(keepends=True)
    headers = [at for at, line in enumerate(lines) if _HEADER.match(line)]
    start = next((at for at in headers if (_reads(lines[at]) or {}).keys() == {model}), len(lines))
    end = next((at for at in headers if at > start), len(lines))
    for at in range(start + 1, end):
        for name, value in numbers.items():
            lines[at] = re.sub(rf"^(\s*{name}\s*=\s*)[0-9._eE+-]+", rf"\g<1>{_number(value)}", lines[at])
    return "".join(lines)


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _reads(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
