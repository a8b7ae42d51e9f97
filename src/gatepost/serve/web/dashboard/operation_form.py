"""The form of an operation, made from its declaration; the arguments that come back from it; and the words and links of
its answer.

An answer is to be seen on the page of what the operation has made. An answer that nobody can read again is shown once.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc
from ipaddress import ip_address
from itertools import islice
from types import MappingProxyType
from typing import Any, get_args, get_origin
from urllib.parse import urlsplit

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.core.late_pattern import late_pattern
from gatepost.core.record_changes import NO, YES, parse_pairs, parse_texts
from gatepost.core.records import replace
from gatepost.serve.control.contract import OPERATIONS, Operation
from gatepost.serve.control.declaration import ArgumentField, OperationInfo, list_fields, list_inputs
from gatepost.serve.web.dashboard.contract import render_path
from gatepost.serve.web.dashboard.form_words import (
    CHOICES,
    HELPS,
    INPUTS,
    SHOW,
    render_label,
    render_submit,
    render_title,
)
from gatepost.serve.web.dashboard.tables import render_fields
from gatepost.serve.web.dashboard.undo import FINAL
from gatepost.serve.web.dashboard.view import FormInput, InputKind, Link

# Arguments of many lines, and those of one line that are hidden while they are typed.
LONG = ("prompt", "text", "content", "script", "agents_md", "message", "reason", "instructions")
SECRETS = ("key", "value", "new_password", "old_password", "signing_secret")
# Inputs that a browser may fill in, or offer to keep.
AUTOCOMPLETE = {"new_password": "new-password", "old_password": "current-password"}
# By operation and a value that is known already ("": whatever is): arguments that most people give, though it works
# without them. They stand in this order, behind those that are needed.
FRONT = {
    ("token.add", "webhook"): ("label", "instructions", "signature"),
    ("token.add", "chat_link"): ("origins",),
    ("login.set_password", ""): ("old_password",),
    ("task.add", ""): ("text", "prompt", "when", "room"),
    ("task.set", ""): ("text", "prompt", "when", "room"),
    ("budget.set", ""): ("folder", "user", "instance", "daily", "monthly"),
    ("group.add", ""): ("name", "provider"),
    ("memory.add", ""): ("about",),
}
# By operation and an argument that is known: those that have no place beside it.
_AMOUNTS = ("daily", "monthly", "turn", "task", "session")
OTHERS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("budget.set", "folder"): ("user", "instance"),
    ("budget.set", "user"): ("folder", "instance", "turn", "task", "session"),
    ("budget.set", "instance"): ("folder", "user"),
    **{("budget.set", each): _AMOUNTS for each in _AMOUNTS},
}
# By operation and input: the operation that says what would come of it.
PREVIEWS = {("task.add", "when"): "task.preview", ("task.set", "when"): "task.preview"}
# Texts with a control of their own, by the name of the input.
KINDS = {
    "tz": InputKind.ZONE,
    "timezone": InputKind.ZONE,
    "model": InputKind.MODEL,
    "host": InputKind.HOST,
    "tool": InputKind.TOOL,
}
OWN_ZONE = frozenset({"task.add"})  # operations that take the zone of whoever fills in the form
DEFAULT = "-"  # in the form of a change: the setting's default
_OPTION = late_pattern(r"--([a-z][a-z-]*)")
_SENTENCE_END = late_pattern(r"(?<=[.!?])\s+")
_SENTENCE_PARTS = late_pattern(r"((?<=[.!?])\s+)")
_GROUP = late_pattern(r"(?P<article>\b[Aa] )?(?<![:/\w])(?P<word>[Gg]roup)(?P<many>s?)\b(?![:/`])")
_COMMAND = "`gatepost "


class OperationForm(Struct, frozen=True, kw_only=True):
    """`submit`: the button that does it. `fixed`: arguments that are known already and only shown. `final`: why it
    cannot be undone. `draft`: the name by which a browser keeps what was typed."""

    operation: str
    title: str
    submit: str
    help: str
    inputs: list[FormInput]
    fixed: list[FormInput]
    changes: bool
    final: str = ""
    draft: str = ""

    @property
    def has_files(self) -> bool:
        return any(each.kind is InputKind.FILE for each in self.inputs)


def make_form(
    operation: Operation, given: Mapping[str, str], start: Mapping[str, str] = MappingProxyType({})
) -> OperationForm:
    """`given`: arguments that are known. `start`: what stands in inputs at first."""
    front = [name for value in ("", *given.values()) for name in FRONT.get((operation.info.name, value), ())]
    ordered = sorted(list_inputs(operation.args), key=lambda each: _get_place(each, front))
    fields = map(_make_text_field, ordered)
    inputs = [_complete_input(operation, _make_input(each, given.get(each.name), front)) for each in fields]
    is_asked, name = is_question(operation.info), operation.info.name
    hidden = {each for known in given for each in OTHERS.get((name, known), ())} - {*given}
    inputs = [replace(each, value=start.get(each.name, each.value)) for each in inputs if each.name not in hidden]
    return OperationForm(
        operation=operation.info.name,
        title=render_title(operation.info.name),
        submit=SHOW if is_asked else render_submit(name, given.values()),
        help=render_help(operation),
        inputs=[each for each in inputs if each.name not in given],
        fixed=[_name_value(name, each) for each in inputs if each.name in given],
        changes=not is_asked,
        final=FINAL.get(operation.info.name, ""),
        draft=json.dumps([name, *sorted({**start, **given}.items())]),
    )


def _name_value(operation: str, field: FormInput) -> FormInput:
    """Say a value that is known already as people do, where it is a word of ours."""
    said = "yes" if field.kind is InputKind.FLAG else CHOICES.get((operation, field.name), {}).get(field.value)
    return replace(field, shown=(said,)) if said else field


def render_brief(operation: Operation) -> str:
    """Return what an operation does, in the page's words and on one line."""
    own = HELPS.get(operation.info.name) or _drop_marks(cleandoc(operation.args.__doc__ or ""))
    brief = " ".join(_SENTENCE_END.split(own.partition("\n\n")[0])[:1])
    names = [each.name.upper() for each in list_fields(operation.args)]
    return re.sub(rf"\b({'|'.join(names)})\b", lambda found: found[0].lower(), brief) if names else brief


def _get_place(field: ArgumentField, front: Sequence[str]) -> tuple[bool, int]:
    return not field.required, front.index(field.name) if field.name in front else len(front)


def _complete_input(operation: Operation, field: FormInput) -> FormInput:
    label, description = INPUTS.get((operation.info.name, field.name), (field.label, field.description))
    field = replace(field, label=label, description=description)
    if field.kind is InputKind.ZONE:
        return replace(field, own_zone=operation.info.name in OWN_ZONE)
    preview = PREVIEWS.get((operation.info.name, field.name))
    if preview is None:
        return field
    taken = {each.name for each in list_fields(OPERATIONS[preview].args)}
    previewed = tuple(each.name for each in list_fields(operation.args) if each.name in taken)
    return replace(field, preview=preview, previewed=previewed)


def _make_text_field(field: ArgumentField) -> ArgumentField:
    """A setting of a change is a text: nothing is written where it stays as it is, and DEFAULT where it goes."""
    if "." not in field.name:
        return field
    spec, origin = field.spec, get_origin(field.kind)
    if field.kind is bool:
        spec = replace(spec, choices=(YES, NO))
    elif origin is dict:
        spec = replace(spec, examples=(["NAME=VALUE"],))
    return replace(field, kind=list[str] if origin in (dict, tuple) else str, default="", spec=spec)


def render_help(operation: Operation) -> str:
    if (own := HELPS.get(operation.info.name)) is not None:
        return own
    text = _drop_marks(cleandoc(operation.args.__doc__ or ""))
    if any(each.is_change for each in list_fields(operation.args)):
        text += f" A setting that is left empty stays as it is. “{DEFAULT}” sets its default."
    names = [each.name.upper() for each in list_fields(operation.args) if each.spec.positional]
    return re.sub(rf"\b({'|'.join(names)})\b", lambda found: found[0].lower(), text) if names else text


def _drop_marks(text: str) -> str:
    """Without the command line's marks of options, and without sentences about its commands."""
    paragraphs = (_drop_commands(each) for each in text.split("\n\n"))
    words = "\n\n".join(_render_agents(each) for each in paragraphs if each)
    return _OPTION.sub(lambda found: found[1].replace("-", " "), words)


def _render_agents(paragraph: str) -> str:
    """Say agent for group, as the page does. A sentence that speaks of both means two things."""
    said = paragraph.replace("the agent of FOLDER", "the agent").replace("the group FOLDER", "the agent")
    parts = _SENTENCE_PARTS.split(said)
    return "".join(each if "agent" in each.lower() else _GROUP.sub(_name_agent, each) for each in parts)


def _name_agent(found: re.Match[str]) -> str:
    article, word, many = found["article"] or "", found["word"], found["many"]
    article = f"{article.strip()}n " if article else ""
    return f"{article}{'Agent' if word[0].isupper() else 'agent'}{many}"


def _drop_commands(paragraph: str) -> str:
    if _COMMAND not in paragraph:
        return paragraph
    return " ".join(each for each in _SENTENCE_END.split(paragraph) if _COMMAND not in each)


def _make_input(argument: ArgumentField, given: str | None, front: Sequence[str] = ()) -> FormInput:
    value = given if given is not None else _render_default(argument)
    return FormInput(
        name=argument.name,
        label=render_label(argument.name.rpartition(".")[2]),
        kind=find_kind(argument),
        value=value,
        required=argument.required,
        description=_drop_marks(argument.description),
        choices=_list_choices(argument, value),
        example=_render_example(argument),
        least=argument.spec.least,
        most=argument.spec.most,
        front=argument.name in front or "." in argument.name,
        autocomplete=AUTOCOMPLETE.get(argument.name, "off"),
    )


def _list_choices(argument: ArgumentField, value: str) -> tuple[str, ...]:
    """With an empty one where nothing need be chosen: a browser sends the first that it is shown."""
    choices = argument.choices
    return ("", *choices) if choices and not value and not argument.required and "" not in choices else choices


def find_kind(argument: ArgumentField) -> InputKind:
    kind = argument.kind
    if argument.choices:
        return InputKind.CHOICE
    if kind is bool:
        return InputKind.FLAG
    if kind in (int, float):
        return InputKind.NUMBER
    if kind == list[str]:
        return InputKind.LINES
    if get_origin(kind) is dict:
        return InputKind.PAIRS
    if kind is bytes:
        return InputKind.FILE
    if kind is not str:
        return InputKind.JSON
    if argument.spec.metavar == "USD":
        return InputKind.MONEY
    if (own := KINDS.get(argument.name.rpartition(".")[2])) is not None:
        return own
    if argument.name in SECRETS and argument.spec.secret:
        return InputKind.SECRET
    return InputKind.LONG_TEXT if argument.name in LONG else InputKind.TEXT


def _render_example(argument: ArgumentField) -> str:
    """As it is written in the form: of a list, one on each line."""
    if find_kind(argument) is InputKind.PAIRS and not argument.examples:
        return "NAME=VALUE"
    if find_kind(argument) is InputKind.LINES and argument.spec.examples:
        return "\n".join(argument.spec.examples[0])
    return argument.examples[0] if argument.examples else ""


def _render_default(argument: ArgumentField) -> str:
    """A number that stands for none is left out: a browser sends no form with one that is below its least."""
    if argument.default in (None, "", (), [], {}) or argument.default == argument.spec.unset:
        return ""
    if isinstance(argument.default, bool):
        return "on" if argument.default else ""
    if find_kind(argument) is InputKind.LINES:
        return "\n".join(argument.default)
    return argument.default if isinstance(argument.default, str) else json.dumps(argument.default)


def parse_form(
    operation: Operation, sent: Mapping[str, str], files: Mapping[str, bytes] = MappingProxyType({})
) -> dict[str, Any]:
    """Parse the arguments that were filled in. An empty input has its default.

    `settings.url` is the entry `url` of an argument that is a table of texts.
    """
    arguments = list_fields(operation.args)
    given = {each.name: files[each.name] for each in arguments if each.name in files and each.kind is bytes}
    fields = {each.name: each for each in arguments if not each.is_change and each.kind is not bytes}
    changes = {each.name: _parse_change(operation, each, sent) for each in arguments if each.is_change}
    known = (*fields, *(name for name in sent if _is_entry(fields, name) or name.partition(".")[0] in changes))
    unknown = sorted(name for name in sent if name not in known)
    if unknown:
        raise Invalid(operation.info.name, f"it has no argument {unknown[0][:80]!r}")
    return {**dict(_parse_inputs(fields, sent)), **_parse_entries(fields, sent), **changes, **given}


def _parse_change(operation: Operation, argument: ArgumentField, sent: Mapping[str, str]) -> dict[str, Any]:
    """A table has an entry on each line."""
    kinds = {each.name: get_origin(each.kind) for each in list_fields(argument.kind)}
    texts: dict[str, str] = {}
    for name, text in sent.items():
        start, _, setting = name.partition(".")
        if start != argument.name or not text.strip():
            continue
        lines = [line for line in map(str.strip, text.splitlines()) if line]
        if kinds.get(setting) is dict:
            texts |= {f"{setting}.{entry}": value for entry, value in parse_pairs(lines, setting)}
        else:
            texts[setting] = "" if lines == [DEFAULT] else ",".join(lines)
    return parse_texts(argument.kind, texts, operation.info.name.partition(".")[0])


def _is_entry(fields: Mapping[str, ArgumentField], name: str) -> bool:
    argument, dot, entry = name.partition(".")
    return bool(dot and entry) and argument in fields and fields[argument].kind == dict[str, str]


def _parse_entries(fields: Mapping[str, ArgumentField], sent: Mapping[str, str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name, text in sent.items():
        if _is_entry(fields, name) and text.strip():
            argument, _, entry = name.partition(".")
            found.setdefault(argument, {})[entry] = text.replace("\r\n", "\n")
    return found


def _parse_inputs(fields: Mapping[str, ArgumentField], sent: Mapping[str, str]) -> Iterable[tuple[str, Any]]:
    for name, argument in fields.items():
        text, kind = sent.get(name, ""), find_kind(argument)
        if kind is InputKind.FLAG:
            if argument.required or (name in sent) != bool(argument.default):
                yield name, name in sent
        elif text.strip() or argument.required:
            yield name, _parse_value(argument, kind, text)


def _parse_value(argument: ArgumentField, kind: InputKind, text: str) -> Any:
    if kind is InputKind.NUMBER:
        try:
            return float(text) if argument.kind is float else int(text)
        except ValueError:
            wanted = "number" if argument.kind is float else "whole number"
            raise Invalid(argument.name, f"{text[:80]!r} is no {wanted}") from None
    if kind is InputKind.LINES:
        return [line for line in map(str.strip, text.splitlines()) if line]
    if kind is InputKind.PAIRS and not text.lstrip().startswith("{"):
        return _parse_pairs(argument, text)
    if kind in (InputKind.JSON, InputKind.PAIRS):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise Invalid(argument.name, "it is not JSON") from None
    return text.replace("\r\n", "\n")


def _parse_pairs(argument: ArgumentField, text: str) -> dict[str, Any]:
    """Read lines of `name=value`. If values may be anything, one that is written like a number, yes or no, or a list is
    that."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    pairs = dict(parse_pairs(lines, argument.name))
    return pairs if get_args(argument.kind)[-1] is str else {name: _read(value) for name, value in pairs.items()}


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


# By operation: the page, whose one hole is filled with that field of the answer, and how the link is called.
MADE = {
    "session.fork": ("/sessions/{id}", "session_id", "Open the fork"),
    "session.copy": ("/agents/{id}", "session_id", "Open the agent"),
    "session.replay": ("/replays/{id}", "session_id", "Open the replay"),
    "task.add": ("/tasks/{id}", "id", "Open the task"),
    "agent.create": ("/agents/{id}", "agentId", "Open the agent"),
    "group.add": ("/groups/{id}", "folder", "Open the agent"),
    "skill.read": ("/skill-cards/{id}", "digest", "Open the card"),
    "skill.read_draft": ("/skill-cards/{id}", "digest", "Open the card"),
    "skill.read_update": ("/skill-cards/{id}", "digest", "Open the card"),
}
# By operation: the fields of its answer that are shown once, and how they are called.
ONCE = {
    "token.add": {"url": "The link", "secret": "The token", "signing_secret": "The secret that the service signs with"},
    "token.sign": {"signing_secret": "The secret that the service signs with"},
    "invite.create": {"secret": "The code", "url": "The link"},
    "api_token.add": {"secret": "The token"},
    "channel.token": {"secret": "The token"},
    "agent.token": {"token": "The token"},
    "user.pair": {"code": "The code", "link": "The link"},
}
READ = frozenset({"backup.prune", "backup.verify", "channel.test", "doctor.run", "keep.run", "memory.sync"})
MOST_FACTS, LONGEST_FACT = 200, 2000  # of an answer; characters
CHECKS = frozenset({"connector.check"})  # they change nothing, and what they found is why somebody runs them


def is_question(operation: OperationInfo) -> bool:
    """Return True if its answer is what somebody wants of it."""
    return operation.reads or operation.right.endswith(".read") or operation.name in CHECKS


def is_read(operation: OperationInfo) -> bool:
    """Return True if somebody wants to read what it answers."""
    return is_question(operation) or operation.name in READ


def list_facts(answer: Any) -> list[tuple[str, str]]:
    """List what an operation has answered, as (label, text), without what is empty and only as far as it is read."""
    if isinstance(answer, Mapping):
        named = [(render_label(str(name)), value) for name, value in answer.items()]
    else:
        named = [("", each) for each in (answer if isinstance(answer, list) else [answer])]
    return [*islice(_list_texts(named), MOST_FACTS)]


def _list_texts(named: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    for label, value in named:
        parts = value if isinstance(value, list) else [value]
        if all(isinstance(each, str | int | float) for each in parts):
            parts = [", ".join("yes" if each is True else "no" if each is False else str(each) for each in parts)]
        for each in parts:
            text = render_fields(each) if isinstance(each, Mapping) else "" if each is None else str(each)
            if text:
                yield label, text[:LONGEST_FACT]


def list_shown_once(operation: str, answer: Any) -> list[tuple[str, str]]:
    """List values that are shown once, as (label, value). A value that ends the one before it is left out."""
    given, shown = answer if isinstance(answer, dict) else {}, list[tuple[str, str]]()
    for name, called in ONCE.get(operation, {}).items():
        value = str(given.get(name) or "")
        if value and not (shown and shown[-1][1].endswith(value)):
            shown.append((called, value))
    return shown


def is_local_link(text: str) -> bool:
    """Return True if it is the address of a page that only this machine reaches."""
    host = urlsplit(text).hostname if text.startswith(("http://", "https://")) else None
    if host is None or host == "localhost":
        return host is not None
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def find_result_link(operation: str, answer: Any) -> Link | None:
    """A list leads somewhere if one thing is in it."""
    path, name, called = MADE.get(operation, ("", "", ""))
    answer = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
    made = answer.get(name) if isinstance(answer, dict) else None
    return Link(called, render_path(path, id=str(made))) if path and made else None
