"""The operator's own prices while the gateway runs. The file is read anew when it has changed. A price can be put into
it as a person would do it; everything else in it stays, comments too.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from gatepost.access.budgets import MICRO, parse_usd
from gatepost.core import log
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.core.settings_file import write_atomically
from gatepost.egress import tool_costs
from gatepost.egress.prices import FILE, Price, find_price, load_own_prices, read_prices, read_tools
from gatepost.egress.tool_costs import ToolCost

NAME = "prices.toml"  # where there is none yet
_HEADER = re.compile(r"\s*\[")
_log = log.get("prices")

Stamp = tuple[int, int, int] | None


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
    if not slash and parse_usd(text, "--price"):
        raise Invalid("--price", f"{text[:40]!r}: write IN/OUT, like 0.5/1.5 (USD for a million tokens), or 0")
    plain = parse_usd(asked, "--price")
    answer = parse_usd(answered, "--price") if slash else plain
    return Price(input=plain, output=answer, cache_read=plain, cache_write=plain, cache_write_long=plain)


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
