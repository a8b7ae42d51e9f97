"""Ways out of a channel that has ended, with the names of this instance. An adapter does not know whether its channel
runs or is being added, so its words are completed here."""

import re

from gatepost.channels.contract import ChannelEnded, ChannelKind, EndReason
from gatepost.flow.channel_specs import get_last_name

_SET = "`gatepost channel set`"
_SET_WITH = re.compile(rf"(?P<before>and )?\bset (?P<what>(?:(?!\bset ).)+?) with {_SET}")
_START = re.compile(r"start (?:this|the) channel again|restart (?:this|the) channel")


def render_for_running(error: ChannelEnded, instance: str, kind: ChannelKind | None) -> str:
    """Whole commands."""
    text = error.remedy.replace(_SET, f"`{_render_set(error.reason, instance, kind)}`")
    if error.reason is not EndReason.SECOND_POLLER or "`gatepost channel" in text:
        return text
    restart = f"`gatepost channel restart {instance}`"
    return _START.sub(restart, text) if _START.search(text) else f"{text}, then {restart}"


def _render_set(reason: EndReason, instance: str, kind: ChannelKind | None) -> str:
    command = f"gatepost channel set {instance}"
    if reason is EndReason.SETTING:
        return f"{command} --set …"
    secrets = [get_last_name(each) for each in kind.guide.ask if each.secret] if kind is not None else []
    return f"{command} --secret {secrets[0]}" if len(secrets) == 1 else command  # of several, each is asked for


def reword_for_new(error: ChannelEnded) -> ChannelEnded:
    """Nothing was added, so there is nothing to set or to restart; and nothing was accepted before."""
    why = error.why.replace("no longer accepts", "does not accept")
    remedy = _START.sub("add the channel again", _SET_WITH.sub(_render_again, error.remedy))
    return ChannelEnded(error.reason, why, remedy)


def _render_again(found: re.Match[str]) -> str:
    before, what = found["before"] or "", found["what"]
    if what == "it":
        what = "it" if before else "a valid one"
    return f"{before}add the channel again with {'another' if what == 'it anew' else what}"
