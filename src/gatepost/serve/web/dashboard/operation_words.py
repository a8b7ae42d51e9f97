"""How operations and their arguments are called on the page: made from their names, as declared.

Words stand here only where a name is an abbreviation, or where the sentence made from it would be wrong.
"""

WORDS = {
    "acl": "access row",
    "agents_md": "AGENTS.md",
    "api": "API",
    "cwd": "working folder",
    "grant_option": "may pass it on",
    "id": "ID",
    "invite": "invitation",
    "login": "sign-in",
    "permit": "request",
    "pr": "pull request",
    "rm": "remove",
    "seq": "number",
    "settings": "setting",
    "ttl": "valid for",
    "tz": "time zone",
    "url": "URL",
}
UNITS = {"s": "seconds", "usd": "USD"}  # by the last part of an argument's name
# The outcome by verb. A verb that is not here may have done less than it says, and is answered by "Done".
PARTICIPLES = {
    "add": "added",
    "answer": "answered",
    "archive": "archived",
    "bind": "bound",
    "block": "blocked",
    "cancel": "cancelled",
    "close": "closed",
    "copy": "copied",
    "create": "created",
    "end": "ended",
    "fork": "forked",
    "kill": "ended",
    "link": "linked",
    "move": "moved",
    "pause": "paused",
    "remove": "removed",
    "rename": "renamed",
    "reset": "reset",
    "restart": "restarted",
    "resume": "resumed",
    "rm": "removed",
    "rotate": "rotated",
    "save": "saved",
    "set": "saved",
    "stop": "stopped",
    "trust": "trusted",
    "unbind": "unbound",
    "unblock": "unblocked",
    "unlink": "unlinked",
    "unpair": "unpaired",
    "unset": "removed",
    "write": "saved",
}
DONE = {
    "group.move": "It has moved, or is on its way; its page says where it is.",
    "ledger.retry": "The message is tried again.",
    "onboarding.close": "Entrance closed.",
    "onboarding.open": "Entrance opened.",
    "panic.off": "Everything goes on.",
    "panic.on": "Everything is stopped.",
    "session.send": "Message sent.",
    "task.run": "Task started.",
    "token.sign": "Signature saved.",
    "user.block": "Blocked.",
    "user.unblock": "The block is taken back.",
}


def render_title(operation: str) -> str:
    """Render the title of an operation's form: `api_token.add` is "API token: add"."""
    subject, _, verb = operation.partition(".")
    return f"{_capitalize(_join(subject))}: {_join(verb)}"


def render_label(argument: str) -> str:
    """Render the label of an argument's input: `timeout_s` is "Timeout (seconds)"."""
    name, _, unit = argument.rpartition("_")
    if name and unit in UNITS:
        return f"{_capitalize(_join(name))} ({UNITS[unit]})"
    return _capitalize(_join(argument))


def render_done(operation: str) -> str:
    """Once it has run: `api_token.add` is "API token added." and `group.write_file` is "File saved."."""
    subject, _, verb = operation.partition(".")
    verb, _, rest = verb.partition("_")
    if operation in DONE or verb not in PARTICIPLES:
        return DONE.get(operation, "Done.")
    return f"{_capitalize(_join(rest or subject))} {PARTICIPLES[verb]}."


def _join(name: str) -> str:
    return WORDS.get(name) or " ".join(WORDS.get(each, each) for each in name.split("_"))


def _capitalize(text: str) -> str:
    """The first letter alone: what is written in capitals stays so."""
    return text[:1].upper() + text[1:]
