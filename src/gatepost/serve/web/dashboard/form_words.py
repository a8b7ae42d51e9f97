"""Words of the page's forms: what an operation, its inputs and its button are called, and what is said once it is done.

They are made from the declared names. A text stands here only where such a name is an abbreviation, or says less than
whoever fills in the form has to know.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gatepost.core.languages.catalogue import fill_text
from gatepost.serve.web.dashboard.tables import shorten

LONGEST_WORD = 20
LONGEST_NAME = 60  # of what a sentence names
_HOLE = re.compile(r"\{(\w+)\}")
WORDS = {
    "acl": "access row",
    "agents_md": "AGENTS.md",
    "api": "API",
    "cron": "on a calendar",
    "group": "agent",
    "cwd": "working folder",
    "grant_option": "may pass it on",
    "folder": "agent",
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
# By operation and input: its label, and what is said below it.
INPUTS: Mapping[tuple[str, str], tuple[str, str]] = {
    **{
        (f"task.{verb}", name): words
        for verb in ("add", "set")
        for name, words in {
            "text": ("What it should say", "Word for word, for reminders. It costs nothing."),
            "prompt": ("Or what it should do", "The agent works on it each time, and answers."),
            "when": ("When", ""),
            "room": ("Where the answer goes", ""),
            "title": ("Name", "In lists, and in notices about it."),
            "at": ("Once, at an exact time", ""),
            "cron": ("As five fields", "Minute, hour, day, month, weekday."),
            "every": ("Again and again, so far apart", ""),
            "tz": ("Time zone", ""),
            "max_runs": ("How often at most", "It ends after so many runs."),
            "max_cost": ("The most that one run may cost", ""),
            "until": ("Until when", "It ends then."),
            "script": ("A script before", "Shell commands that run first, and may leave the agent asleep."),
            "missed": ("If the gateway was off at the time", ""),
            "context": ("Which conversation", ""),
        }.items()
    },
    ("task.add", "folder"): ("Who", ""),
    ("task.add", "agent"): ("For a background agent", "Its name. It has a room of its own."),
    ("budget.set", "folder"): ("For which agent", "All agents that are part of it count, too."),
    ("budget.set", "user"): ("Or for which person", ""),
    ("budget.set", "instance"): ("Or for the whole gateway", ""),
    ("budget.set", "daily"): ("For a day", ""),
    ("budget.set", "monthly"): ("For a month", ""),
    ("budget.set", "turn"): ("For one answer", ""),
    ("budget.set", "task"): ("For one run of a task", ""),
    ("budget.set", "session"): ("For one conversation", ""),
}
# By operation: what its form says first.
HELPS: Mapping[str, str] = {
    "task.add": "",
    "task.set": "What you leave empty stays as it is.",
    "budget.set": "Once it is spent, no model is asked until it begins anew. What you leave empty stays as it is. What"
    " was added to a limit ends when that is set anew.",
}
# Choices as people say them, by operation and input.
CHOICES: Mapping[tuple[str, str], Mapping[str, str]] = {
    **{("budget.set", each): {"none": "no limit"} for each in ("daily", "monthly", "turn", "task", "session")},
    **{
        (f"task.{verb}", name): shown
        for verb in ("add", "set")
        for name, shown in {
            "missed": {"once": "Do it once, late", "skip": "Leave it out", "all": "Do it as often as it was missed"},
            "context": {"group": "The one that goes on in the room", "isolated": "A fresh one each time"},
        }.items()
    },
}
# Errors that speak to a command line or to an agent, by how they begin.
ERRORS: Mapping[str, str] = {
    "give either a prompt, which": "Say what it should say, or what it should do: one of the two.",
    "say when with exactly one of": "Say when, in one way: such as every day at 8.",
    "whose budget? name": "Say whose limit it is: an agent's, a person's, or the whole gateway's.",
    "how much? give": "Say how much, for a day or for a month.",
}
# What people call it who look for it, by operation or by the path of a page.
ALIASES: Mapping[str, str] = {
    "/activity": "today yesterday what happened history log",
    "/agents": "job jobs in the background",
    "/backups": "backup restore save copy",
    "/channels": "telegram slack whatsapp mail connect a chat",
    "/costs": "bill money spent price today",
    "/doctor": "what is wrong health problems",
    "/egress": "internet web host network website",
    "/groups": "bot bots assistant list of agents",
    "/logins": "language password passkey sign out",
    "/people": "users members friends family",
    "/people/invite": "invite somebody new link",
    "/requests": "waiting approve allow decide",
    "/tasks": "reminder reminders schedule calendar",
    "backup.create": "back up now save a copy",
    "budget.set": "most money a day budget",
    "egress.allow": "internet web let it reach a website",
    "group.add": "new agent bot assistant",
    "group.rest": "pause sleep switch off an agent",
    "memory.add": "remember a fact note",
    "panic.off": "go on continue start again",
    "panic.on": "stop everything halt emergency pause all",
    "task.add": "reminder remind me every day daily alarm",
    "user.language": "german english language",
}
# By verb: the button that does it, and the outcome. One that is not here may have done less than it says.
VERBS: Mapping[str, tuple[str, str]] = {
    "add": ("Add it", "Added."),
    "answer": ("Answer", "Answered."),
    "archive": ("Archive it", "Archived."),
    "bind": ("Bind it", "Bound."),
    "block": ("Block", "Blocked."),
    "cancel": ("End it", "Ended."),
    "close": ("Close it", "Closed."),
    "copy": ("Copy it", "Copied."),
    "create": ("Make it", "Made."),
    "end": ("End it", "Ended."),
    "fork": ("Fork it", "Forked."),
    "give": ("Give it", "Given."),
    "kill": ("End it", "Ended."),
    "link": ("Link it", "Linked."),
    "move": ("Move it", "Moved."),
    "pause": ("Pause it", "Paused."),
    "remove": ("Remove it", "Removed."),
    "rename": ("Rename it", "Renamed."),
    "reset": ("Reset it", "Reset."),
    "restart": ("Restart it", "Restarted."),
    "restore": ("Restore it", "Restored."),
    "resume": ("Resume it", "Resumed."),
    "rm": ("Remove it", "Removed."),
    "rotate": ("Make a new one", "A new one is made."),
    "run": ("Run it", "Done."),
    "save": ("Save", "Saved."),
    "send": ("Send", "Sent."),
    "set": ("Save", "Saved."),
    "stop": ("Stop it", "Stopped."),
    "trust": ("Trust it", "Trusted."),
    "unbind": ("Take it away", "Taken away."),
    "unblock": ("Unblock", "Not blocked any more."),
    "unlink": ("Unlink it", "Unlinked."),
    "unpair": ("Separate them", "Separated."),
    "unset": ("Remove it", "Removed."),
    "check": ("Look", "Done."),
    "install": ("Install it", "Done."),
    "keep": ("Keep it", "Done."),
    "prune": ("Remove old ones", "Done."),
    "replay": ("Replay it", "Done."),
    "sync": ("Take it over", "Done."),
    "test": ("Try it out", "Done."),
    "try": ("Try it out", "Done."),
    "view": ("See it", "Done."),
    "verify": ("Check it", "Done."),
    "mute": ("Say nothing of it", "Nothing is said of it."),
    "write": ("Save", "Saved."),
}
ANY_VERB = ("Go ahead", "Done.")
SHOW = "Show"  # the button of a question
# The same by operation, or by operation and a value that it is given. A word in braces is an argument or a part of the
# answer.
DEEDS: Mapping[str, tuple[str, str]] = {
    "acl.add": ("Add the row", "The row is added."),
    "acl.rm": ("Remove the row", "The row is removed."),
    "agent.archive": ("Archive it", "It is archived."),
    "agent.create": ("Start the agent", "The agent has begun."),
    "agent.prompt": ("Say it", "It was told."),
    "alert.mute": ("Say nothing for a while", "Nothing is said of it for a while."),
    "alert.mute 0": ("Tell again", "You are told of it again."),
    "alert.test": ("Send a test", "A test is on its way by {Channel}."),
    "api_token.add": ("Make the token", "The token is made."),
    "api_token.rm": ("Revoke the token", "The token is revoked: nothing gets in by it any more."),
    "budget.set": ("Set the limit", "The limit is set."),
    "budget.set none": ("Take the limit away", "The limit is taken away."),
    "channel.remove": ("Remove the channel", "The channel is removed."),
    "channel.restart": ("Restart the channel", "The channel is restarted."),
    "channel.set": ("Save the changes", "The channel is changed."),
    "egress.allow": ("Allow the host", "{Host} may be reached."),
    "egress.deny": ("Deny the host", "{Host} cannot be reached."),
    "egress.rm": ("Remove the host", "{Host} is not on the list any more."),
    "gateway.drain": ("Drain it", "It takes nothing new, and ends what it has begun."),
    "gateway.forget": ("Forget it", "The gateway is forgotten."),
    "grant.add": ("Add the rule", "The rule holds."),
    "grant.choose": ("Add this", "It holds from now on."),
    "grant.rm": ("Remove the rule", "The rule is removed."),
    "group.add": ("Make the agent", "The agent {Folder} is made."),
    "group.give_file": ("Give it the file", "It has the file {Path}."),
    "group.move": ("Move the agent", "It has moved, or is on its way; its page says where it is."),
    "group.rest": ("Put it to rest", "It rests: what is written to it waits."),
    "group.rm": ("Remove the agent", "The agent {Folder} is removed."),
    "group.set": ("Save the changes", "The agent is changed."),
    "group.wake": ("Wake it", "It goes on with what waited."),
    "group.write_file": ("Save the file", "{Path} is saved."),
    "instructions.put_back": ("Put this back", "It is put back."),
    "invite.create": ("Make the link", "The invitation is made."),
    "keep.run": ("Remove what is too old", "What was too old is removed."),
    "ledger.retry": ("Try it again", "The message is tried again."),
    "login.end": ("Sign out there", "Signed out there."),
    "login.end_all": ("Sign out", "Signed out."),
    "login.remove_password": ("Remove the password", "The password is removed."),
    "login.set_password": ("Save the password", "The password is saved."),
    "memory.add": ("Remember it", "It is remembered."),
    "memory.edit": ("Save the correction", "It is corrected."),
    "memory.forget": ("Forget it", "It is forgotten."),
    "memory.restore": ("Remember it again", "It is remembered again."),
    "memory.undo": ("Take it back", "It is taken back."),
    "onboarding.allow": ("Let them in", "They are let in."),
    "onboarding.close": ("Close the entrance", "The entrance is closed."),
    "onboarding.deny": ("Turn them away", "They are turned away."),
    "onboarding.open": ("Open the entrance", "The entrance is open."),
    "panic.off": ("Go on", "Everything goes on."),
    "panic.on": ("Stop everything", "Everything is stopped."),
    "passkey.rm": ("Remove the passkey", "The passkey is removed."),
    "permit.answer": ("Answer", "The answer is given."),
    "room.policy": ("Save", "Who may write there is saved."),
    "route.add": ("Add the route", "The route is added."),
    "route.rm": ("Remove the route", "The route is removed."),
    "rule.add": ("Pin it", "It is told this in every conversation from now on."),
    "rule.rm": ("Remove it", "It is not told this any more."),
    "secret.bind": ("Bind the secret", "The secret may go to {Host}."),
    "secret.rm": ("Remove the secret", "The secret {Name} is removed."),
    "secret.set": ("Keep the secret", "The secret {Name} is kept."),
    "session.close": ("Close the conversation", "The conversation is closed."),
    "session.fork": ("Fork the conversation", "The conversation has a fork."),
    "session.reset": ("Begin anew", "The conversation begins anew."),
    "session.send": ("Send", "The message is sent."),
    "session.stop": ("Stop it", "It is stopped."),
    "session.stop_all": ("Stop all", "All are stopped."),
    "settings.set": ("Save the setting", "The setting is saved."),
    "settings.unset": ("Remove the setting", "The setting is removed."),
    "skill.agree": ("Agree", "Agents have it from their next turn on."),
    "skill.read": ("Read them", "Read: nobody has it before somebody agreed."),
    "skill.read_draft": ("Read it", "Read: nobody has it before somebody agreed."),
    "skill.read_update": ("Look for a change", "Read: nothing changes before somebody agreed."),
    "skill.rm": ("Remove the skill", "The skill is removed."),
    "task.add": ("Add the task", "The task is added. Its first time is {Next}."),
    "task.cancel": ("End the task", "The task is ended."),
    "task.pause": ("Pause the task", "The task is paused."),
    "task.resume": ("Resume the task", "The task goes on. Its next time is {Next}."),
    "task.run": ("Run it now", "The task is started."),
    "task.set": ("Save the changes", "The task is changed. Its next time is {Next}."),
    "token.add": ("Make the link", "The link is made."),
    "token.rm": ("Withdraw it", "It is withdrawn: nothing gets in by it any more."),
    "token.sign": ("Make the signature", "Signature saved."),
    "user.add": ("Add the person", "The person is added."),
    "user.block": ("Block the person", "The person is blocked."),
    "user.forget": ("Forget the person", "Done."),  # unless they say so it erases nothing
    "user.language": ("Choose", "Language chosen."),
    "user.member": ("Make a member", "The person is a member now."),
    "user.pair": ("Make the code", "Done."),
    "user.role": ("Give the role", "The role is given."),
    "worktree.archive": ("Archive the worktree", "The worktree is archived."),
    "worktree.create": ("Make the worktree", "The worktree is made."),
    "worktree.save": ("Save the worktree", "The worktree is saved."),
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


def render_submit(operation: str, given: Iterable[object] = ()) -> str:
    """Render the label of the button that does it: `task.add` is "Add the task". `given`: values that are known."""
    return _get_deed(operation, given)[0]


def render_done(operation: str, facts: Mapping[str, Any] | None = None, given: Iterable[object] = ()) -> str:
    """Say in one sentence what has happened. `facts`: what it was given and what it answered; without one that the
    sentence needs, it says less. `given`: values that it was given."""
    said = {name: shorten(each, LONGEST_NAME) for name, each in (facts or {}).items() if isinstance(each, str) and each}
    whole = _get_deed(operation, given)[1]
    if {each.lower() for each in _HOLE.findall(whole)} <= {*said}:
        return fill_text(whole, **said)
    plain = whole.partition(". ")[0]
    return _get_verb(operation)[1] if "{" in plain else f"{plain.removesuffix('.')}."


def _get_deed(operation: str, given: Iterable[object]) -> tuple[str, str]:
    plain = (str(each) for each in given if isinstance(each, str | int))
    special = (DEEDS.get(f"{operation} {each}") for each in plain if len(each) < LONGEST_WORD)
    return next(filter(None, special), None) or DEEDS.get(operation) or _get_verb(operation)


def _get_verb(operation: str) -> tuple[str, str]:
    return VERBS.get(operation.partition(".")[2].partition("_")[0], ANY_VERB)


def _join(name: str) -> str:
    return WORDS.get(name) or " ".join(WORDS.get(each, each) for each in name.split("_"))


def _capitalize(text: str) -> str:
    """The first letter alone: what is written in capitals stays so."""
    return text[:1].upper() + text[1:]
