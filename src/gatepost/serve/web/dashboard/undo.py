"""The way back from what was just done: the operation that undoes another, with its arguments.

Only an exact inverse is offered. An operation without one says before it is done that it cannot be undone.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gatepost.serve.web.dashboard.view import Action
from gatepost.store.rooms.routes import render_ttl

Given = Mapping[str, Any]
Inverse = Callable[[Given, Given], Given | None]  # (arguments, answer) to the arguments of the way back

# What is gone for good, in the dialogs that ask for it.
FINAL = {
    "group.rm": "What it knows and its conversations cannot be brought back.",
    "secret.rm": "Its value cannot be brought back.",
    "task.cancel": "It cannot be resumed. “Pause” holds it for a while.",
    "user.forget": "This cannot be undone.",
}


def make_undo(operation: str, args: Given, answer: Any) -> Action | None:
    """Return the button that takes an operation back, None where nothing does exactly that."""
    inverse = INVERSES.get(operation)
    if inverse is None or not isinstance(answer, Mapping):
        return None
    name, find = inverse(answer) if callable(inverse) else inverse
    given = find(args, answer)
    if given is None:
        return None
    return Action(label="Undo", operation=name, args={key: value for key, value in given.items() if value})


def _same(*names: str) -> Inverse:
    return lambda args, answer: {name: args.get(name) for name in names}


def _answered(*names: str) -> Inverse:
    return lambda args, answer: {name: answer.get(name) for name in names}


def _find_route(args: Given, route: Given) -> Given:
    messages, chars = route["window_messages"], route["window_chars"]
    window = "" if messages is None and chars is None else f"{messages or ''}/{chars or ''}"
    own = {name: route[name] for name in ("match", "target", "seq", "also")}
    return {**own, "session": route["mode"], "window": window, "ttl": render_ttl(route["ttl_s"])}


def _find_rule(args: Given, removal: Given) -> Given | None:
    """The last matching rule decides, so a rule that stood before others is not put behind them."""
    return {"folder": args["folder"], "rule": args["rule"]} if removal["was_last"] else None


def _find_row(args: Given, row: Given) -> Given:
    same = ("principal", "action", "scope", "params", "predicate", "grant_option")
    return {**{name: row[name] for name in same}, "deny": row["effect"] == "deny"}


def _find_host(args: Given, rule: Given) -> Given:
    return {"host": f"{rule['host']}:{rule['port']}" if rule["port"] else rule["host"], "folder": rule["folder"]}


def _get_host_inverse(rule: Given) -> tuple[str, Inverse]:
    return ("egress.allow" if rule["allow"] else "egress.deny"), _find_host


INVERSES: Mapping[str, tuple[str, Inverse] | Callable[[Given], tuple[str, Inverse]]] = {
    "acl.add": ("acl.rm", _answered("id")),
    "acl.rm": ("acl.add", _find_row),
    "egress.rm": _get_host_inverse,
    "grant.rm": ("grant.add", _find_rule),
    "group.link": ("group.unlink", _same("folder", "name")),
    "group.rest": ("group.wake", lambda args, answer: {"folder": args["folder"]} if answer["changed"] else None),
    "group.unlink": ("group.link", _answered("folder", "name", "group")),
    "memory.add": ("memory.forget", _answered("id")),
    "memory.forget": ("memory.restore", _answered("id")),
    "role.add": ("role.rm", lambda args, answer: {**args} if answer["new"] else None),
    "role.rm": ("role.add", _same("child", "role")),
    "route.add": ("route.rm", _answered("id")),
    "route.rm": ("route.add", _find_route),
    "rule.add": ("rule.rm", lambda args, answer: _answered("folder", "id")(args, answer) if answer["new"] else None),
    "task.pause": ("task.resume", _answered("id")),
    "task.resume": ("task.pause", _answered("id")),
    "user.block": ("user.unblock", _same("who", "folder")),
}
