"""Settings are declared where they are read and listed here. Values come from, in rising order: the default,
`gatepost.toml` in the home, the environment (`GATEPOST_…`), the command line.

An unknown key is an error with its dotted path. `docs/settings.md` is printed from the declarations.

A start check judges what declarations cannot. It stands in the file that declares its settings, and runs before a start
and before a setting is written; a change check runs before a setting is written alone. Both look at settings and files,
and ask nobody over the network.
"""

import difflib
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import msgspec

from gatepost.core.errors import SetupError, did_you_mean
from gatepost.core.home import Home
from gatepost.core.registry import Registry

T = TypeVar("T")
Table = TypeVar("Table", bound=msgspec.Struct)

SETTINGS: Registry["Setting[Any]"] = Registry("setting")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
SECRET_ELSEWHERE = (
    "that is a secret, which belongs in no file and no variable: remove it there, and give it to `gatepost channel add`"
    " or `gatepost channel set`"
)
KIND = "kind"  # the key that makes a table an instance
INSTANCE = "<instance>"  # in the name of a declaration: any name that people choose
VARIABLE_START = "GATEPOST_"
# Of 1. Others have variables with our name as well (Kubernetes makes GATEPOST_SERVICE_HOST), which mean no setting.
LEAST_LIKENESS = 0.85


@dataclass(frozen=True, eq=False)
class Setting(Generic[T]):
    """One declared setting: its dotted name is its key in the file and, upper-cased, in the environment."""

    name: str
    default: T
    read: Callable[[Any], T]
    help: str
    variable: str
    choices: tuple[str, ...] = ()
    secret: bool = False  # kept in the store, sealed; no file, variable or command line may hold it
    whole: bool = False  # a table of tables, whose keys are names that people choose
    show: Callable[[T], Any] | None = None  # of one that may hold a secret: how its value is shown

    def parse(self, raw: Any, where: str) -> T:
        try:
            read = self.read(raw)
        except (ValueError, TypeError) as error:
            said = "" if self.whole or self.show else f" = {raw!r}"
            raise SetupError(f"{where}: {self.name}{said} {error}") from None
        if self.choices and read not in self.choices:
            raise SetupError(f"{where}: {self.name} = {raw!r} is not one of {', '.join(self.choices)}")
        return read


def _read_bool(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    word = str(raw).strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("is neither true nor false")


def _read_text(raw: Any) -> str:
    if isinstance(raw, (dict, list)):
        raise ValueError("is not text")
    return str(raw)


def _read_whole(raw: Any) -> int:
    value = _read_number(raw, "is not a whole number")
    if value != int(value):
        raise ValueError("is not a whole number")
    return int(value)


def _read_number(raw: Any, complaint: str = "is not a number") -> float:
    try:
        value = math.nan if isinstance(raw, bool) else float(raw)
    except (ValueError, TypeError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(complaint)
    if value < 0:
        raise ValueError("is negative, which makes no sense here")
    return value


def _read_list(raw: Any) -> tuple[str, ...]:
    if isinstance(raw, str):
        return tuple(part.strip() for part in raw.split(",") if part.strip())
    if isinstance(raw, (list, tuple)):
        return tuple(str(part) for part in raw)
    raise ValueError("is not a list")


@overload
def setting(name: str, default: bool, *, help: str, variable: str = "") -> Setting[bool]: ...
@overload
def setting(name: str, default: int, *, help: str, variable: str = "") -> Setting[int]: ...
@overload
def setting(name: str, default: float, *, help: str, variable: str = "") -> Setting[float]: ...
@overload
def setting(
    name: str,
    default: str = "",
    *,
    help: str,
    variable: str = "",
    choices: tuple[str, ...] = (),
    secret: bool = False,
    read: Callable[[Any], str] | None = None,
    show: Callable[[str], Any] | None = None,
) -> Setting[str]: ...
@overload
def setting(name: str, default: tuple[str, ...], *, help: str, variable: str = "") -> Setting[tuple[str, ...]]: ...
def setting(
    name: str,
    default: Any = "",
    *,
    help: str,
    variable: str = "",
    choices: tuple[str, ...] = (),
    secret: bool = False,
    read: Callable[[Any], Any] | None = None,
    show: Callable[[Any], Any] | None = None,
) -> Setting[Any]:
    """Declare a setting. Its type is that of its default. `show`: it may hold a secret, and is shown like this."""
    readers: dict[type, Callable[[Any], Any]] = {
        bool: _read_bool,
        int: _read_whole,
        float: _read_number,
        str: _read_text,
        tuple: _read_list,
    }
    declared = Setting(
        name=name,
        default=default,
        read=read or readers[type(default)],
        help=help,
        variable=variable or "GATEPOST_" + name.upper().replace(".", "_").replace("-", "_"),
        choices=choices,
        secret=secret,
        show=show,
    )
    SETTINGS.add(name, declared, origin=help)
    return declared


def setting_tables(name: str, kind: type[Table], *, help: str) -> Setting[Mapping[str, Table]]:
    """Declare a table of tables: `[name.github]` is a `kind` named github. In the environment they are JSON."""

    def read(raw: Any) -> dict[str, Table]:
        found = msgspec.json.decode(raw) if isinstance(raw, str) else raw
        if not isinstance(found, Mapping):
            raise ValueError(f"is no table; write [{name}.NAME]")
        made = {}
        for key, table in found.items():
            check_name(key)
            try:
                made[key] = msgspec.convert(table, kind)
            except msgspec.ValidationError as error:
                raise ValueError(f"has a {key} that is not as it should be: {error}") from None
        return made

    declared: Setting[Mapping[str, Table]] = Setting(
        name=name,
        default={},
        read=read,
        help=help,
        variable="GATEPOST_" + name.upper().replace(".", "_"),
        whole=True,
    )
    SETTINGS.add(name, declared, origin=help)
    return declared


def check_name(name: str) -> str:
    """Return the name of a table or an instance if it is valid, else raise ValueError."""
    if not _NAME.match(name):
        raise ValueError(f"has {name!r}: a name has a-z, 0-9, _ and -, begins with a letter, at most 32 signs")
    return name


def setting_instances(prefix: str, *, help: str) -> Setting[Mapping[str, Mapping[str, Any]]]:
    """Declare that a table `[prefix.NAME]` that has `kind` is an instance of that kind. Its other keys are the last
    names of settings `prefix.KIND.…`, for this instance alone; who knows the kinds judges them. In the environment the
    tables are JSON."""

    def read(raw: Any) -> dict[str, Mapping[str, Any]]:
        found = msgspec.json.decode(raw) if isinstance(raw, str) else raw
        if not isinstance(found, Mapping) or not all(isinstance(each, Mapping) for each in found.values()):
            raise ValueError(f"is no table of tables; write [{prefix}.NAME]")
        for name, table in found.items():
            check_name(name)
            if not isinstance(table.get(KIND), str):
                raise ValueError(f"has a {name} without `{KIND}`, which is the name of what it is an instance of")
            for key in table:
                known = SETTINGS.get(f"{prefix}.{table[KIND]}.{key}")
                if known is not None and known.secret:
                    raise ValueError(f"has a {name} with {key}; {SECRET_ELSEWHERE}")
        return dict(found)

    declared: Setting[Mapping[str, Mapping[str, Any]]] = Setting(
        name=f"{prefix}.{INSTANCE}",
        default={},
        read=read,
        help=help,
        variable=f"GATEPOST_{prefix.upper()}_INSTANCES",
        whole=True,
    )
    SETTINGS.add(declared.name, declared, origin=help)
    return declared


class Config:
    """The values in force. `config[SETTING]` is typed by the setting."""

    def __init__(self, values: Mapping[str, Any] | None = None, sources: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})
        self._sources = dict(sources or {})

    def __getitem__(self, key: Setting[T]) -> T:
        value: T = self._values.get(key.name, key.default)
        return value

    def source(self, key: Setting[Any]) -> str:
        """Return where the value came from: default, a file, a variable, the command line."""
        return self._sources.get(key.name, "default")

    def with_values(self, values: Mapping[str, Any], source: str) -> "Config":
        return Config({**self._values, **values}, {**self._sources, **dict.fromkeys(values, source)})

    def without(self, names: Iterable[str]) -> "Config":
        """The same with the defaults of these settings."""
        gone = set(names)
        return Config(
            {name: value for name, value in self._values.items() if name not in gone},
            {name: source for name, source in self._sources.items() if name not in gone},
        )


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    instances = SETTINGS.get(prefix + INSTANCE)
    for key, value in table.items():
        declared = SETTINGS.get(prefix + key)
        if instances is not None and isinstance(value, dict) and KIND in value:
            flat.setdefault(instances.name, {})[key] = value
        elif isinstance(value, dict) and not (declared is not None and declared.whole):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def _nearest(name: str) -> str:
    below = sorted(each for each in SETTINGS if each.startswith(f"{name}."))
    if below:
        return f", which is a table: [{name}], with {', '.join(each.removeprefix(f'{name}.') for each in below)}"
    near = did_you_mean(name, SETTINGS)
    table = name.rpartition(".")[0]
    if f"{table.rpartition('.')[0]}.{INSTANCE}" in SETTINGS and not any(
        each.startswith(f"{table}.") for each in SETTINGS
    ):
        return f"; a table [{table}] of an instance needs `{KIND}`{near}"
    return near or "; `gatepost settings` lists all"


def _parse(declared: Setting[Any], raw: Any, where: str) -> Any:
    if declared.secret:
        raise SetupError(f"{where}: {declared.name}; {SECRET_ELSEWHERE}")
    return declared.parse(raw, where)


def load(home: Path, environ: Mapping[str, str] | None = None, given: Mapping[str, Any] | None = None) -> Config:
    """Read the home's file and the environment; refuse what nobody declared. Plug-ins must be loaded before."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    path = home / "gatepost.toml"
    for name, raw in _read_file(path).items():
        if name not in SETTINGS:
            raise SetupError(f"{path}: unknown setting {name!r}{_nearest(name)}")
        values[name], sources[name] = _parse(SETTINGS[name], raw, str(path)), str(path)
    env = os.environ if environ is None else environ
    for name, declared in SETTINGS.items():
        if declared.variable in env:
            values[name] = _parse(declared, env[declared.variable], declared.variable)
            sources[name] = declared.variable
    for name, raw in (given or {}).items():
        values[name], sources[name] = _parse(SETTINGS[name], raw, f"--{name}"), "command line"
    return Config(values, sources)


def needs_further_declarations(home: Path, prefix: str) -> bool:
    """Return True if the file or the environment sets something below `prefix`, or the file something that nobody
    declared so far: only who knows all declarations can judge that."""
    start = f"GATEPOST_{prefix.upper()}_"
    if any(variable.startswith(start) for variable in os.environ):
        return True
    in_file = _read_file(home / "gatepost.toml")
    return any(name.startswith(f"{prefix}.") or name not in SETTINGS for name in in_file)


def load_declared(home: Path, *wanted: Setting[Any], environ: Mapping[str, str] | None = None) -> Config:
    """Some settings (none named: all declared so far) for a command that has not loaded every plug-in, and therefore
    cannot call another key unknown."""
    path = home / "gatepost.toml"
    chosen = wanted or tuple(declared for _, declared in SETTINGS.items())
    in_file = _read_file(path)
    env = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for declared in chosen:
        if declared.variable in env:
            values[declared.name] = _parse(declared, env[declared.variable], declared.variable)
            sources[declared.name] = declared.variable
        elif declared.name in in_file:
            values[declared.name] = _parse(declared, in_file[declared.name], str(path))
            sources[declared.name] = str(path)
    return Config(values, sources)


def load_readable(home: Path) -> Config:
    """Every setting that is well. One that is not must not hide the rest, nor keep anybody from mending it."""
    config = Config()
    for name, each in SETTINGS.items():
        with suppress(SetupError):
            found = load_declared(home, each)
            if found.source(each) != "default":
                config = config.with_values({name: found[each]}, found.source(each))
    return config


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return _flatten(tomllib.load(file))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SetupError(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}") from None


def list_mistyped(environ: Mapping[str, str] | None = None) -> list[str]:
    """A sentence for each. Every setting must be declared before."""
    known = {each.variable.removeprefix(VARIABLE_START) for _, each in SETTINGS.items()}
    warnings = []
    for name in sorted(os.environ if environ is None else environ):
        rest = name.removeprefix(VARIABLE_START)
        if rest == name or rest in known:
            continue
        near = difflib.get_close_matches(rest[:200], known, n=1, cutoff=LEAST_LIKENESS)
        if near:
            warnings.append(f"nothing reads the variable {name}; did you mean {VARIABLE_START}{near[0]}?")
    return warnings


StartCheck = Callable[[Home, Config], object]  # raises SetupError, which names the setting and the way out

START_CHECKS: Registry[StartCheck] = Registry("start check")
CHANGE_CHECKS: Registry[StartCheck] = Registry("check of a change")


def start_check(check: StartCheck) -> StartCheck:
    """Register the function below."""
    name = f"{check.__module__}.{check.__qualname__}"
    START_CHECKS.add(name, check, origin=check.__module__)
    return check


def change_check(check: StartCheck) -> StartCheck:
    """Register the function below for changes alone: what it finds must not keep a gateway from its start."""
    name = f"{check.__module__}.{check.__qualname__}"
    CHANGE_CHECKS.add(name, check, origin=check.__module__)
    return check


def list_start_errors(home: Home, config: Config) -> list[SetupError]:
    """Return what a start would refuse, of the checks that are loaded."""
    return _list_errors(START_CHECKS, home, config)


def list_change_errors(home: Home, config: Config) -> list[SetupError]:
    """Return what is refused when a setting is written, of the checks that are loaded."""
    return [*list_start_errors(home, config), *_list_errors(CHANGE_CHECKS, home, config)]


def _list_errors(checks: Registry[StartCheck], home: Home, config: Config) -> list[SetupError]:
    found = []
    for check in (each for _, each in checks.items()):
        try:
            check(home, config)
        except SetupError as error:
            found.append(error)
    return found
