"""An agent at a terminal: its timeline as it grows, what is typed as its work, and answers to what it asks.

Leaving never ends the agent. From a pipe every line is work or an order as well, and at the end of the input it is
waited for. The cursor is the timeline's own, so nothing is shown twice, whatever is restarted in between.
"""

import os
import sys
import threading
import time
from typing import Any, TypeVar

from msgspec import Struct

from gatepost.cli import output
from gatepost.cli.conversation import Screen
from gatepost.cli.exit_codes import CLOSED, get_exit_code
from gatepost.cli.gateway_retry import AWAY, BACK, RETRY_S, post_operation, retry_unavailable
from gatepost.cli.program import INTERRUPTED
from gatepost.cli.timeline_renderer import TimelineRenderer, make_entry_json, make_request_json, render_waiting_agent
from gatepost.core.errors import GatepostError, Invalid, Unavailable
from gatepost.flow.requests.questions import parse_questions
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.agents import (
    AgentNews,
    AnswerRequestArgs,
    FollowAgentArgs,
    LogEntry,
    PendingRequest,
    PromptAgentArgs,
    PromptPolicy,
    SetAgentModeArgs,
    StopAgentArgs,
    WaitForAgentArgs,
    WaitOutcome,
)
from gatepost.serve.control.client import ControlClient, ControlError
from gatepost.serve.control.declaration import OperationArgs
from gatepost.store.rights.requests import RequestKind
from gatepost.store.sessions.sessions import UNFINISHED, SessionState
from gatepost.store.sessions.timeline import TimelineKind

R = TypeVar("R")
FOLLOW_S = 25.0  # one request of a longer wait
HELP = """\
text              work for it, after what it does now
/steer text       into what it does now, if its provider can take that
/interrupt text   instead of what it does now
/allow [n]        allow what it asks; y will do if it asks one thing only
/deny [n] [why]   deny it; or n
/answer [n] text  answer a question
/stop             end what it does now, and cancel what waits behind it
/mode m           change when it asks, from its next turn on
/detach           leave; it works on (so does Ctrl-D)
//text            work that begins with a slash"""
SEVERAL = "|"  # between the answers to a request that asks several things
HOW_TO_LEAVE = "It works on. /stop ends what it does now; /detach, Ctrl-D or Ctrl-C again leaves it at work."


class ConsoleCommand(Struct, frozen=True):
    """A line that somebody typed. `verb` is '' for work."""

    verb: str
    text: str


def parse_command(line: str) -> ConsoleCommand:
    if line.startswith("//") or not line.startswith("/"):
        return ConsoleCommand("", line.removeprefix("/") if line.startswith("//") else line)
    verb, _, text = line[1:].partition(" ")
    return ConsoleCommand(verb or "help", text.strip())


def parse_number(text: str) -> tuple[int | None, str]:
    """`2 because` → 2 and the reason; without a number: None and all of it."""
    first, _, rest = text.partition(" ")
    return (int(first), rest.strip()) if first.isascii() and first.isdigit() and len(first) < 9 else (None, text)


def parse_answer(verb: str, text: str, asked: PendingRequest) -> dict[str, Any]:
    """Return what the gateway is told."""
    answer = {"id": asked.id, "allow": verb != "deny"}
    if verb == "deny":
        return {**answer, "message": text}
    if asked.kind == RequestKind.QUESTION and verb == "allow":
        raise Invalid("/allow", "it asks a question: /answer text")
    if verb == "allow" and text:
        raise Invalid("/allow", "takes a number and no reason")
    if verb == "allow":
        return answer
    if not text:
        raise Invalid("/answer", "wants a text")
    many = len(parse_questions(asked.input)) > 1
    return {**answer, "answers": [each.strip() for each in text.split(SEVERAL)] if many else [text]}


class AgentConsole:
    def __init__(
        self, control: ControlClient, agent: str, *, last: int, as_json: bool, timeout: float | None = None
    ) -> None:
        """`timeout`: how long a pipe waits for the agent, in all."""
        self._until = None if timeout is None else time.monotonic() + timeout
        self._control, self._agent, self._last, self._json = control, agent, last, as_json
        self._here = sys.stdin is not None and sys.stdin.isatty()  # a person, who can answer and leave
        self._screen = Screen(plain=as_json)
        self._rows = TimelineRenderer(typed=True)
        self._lock = threading.Lock()
        self._cursor: int | None = None
        self._status = ""
        self._asked: dict[str, PendingRequest] = {}
        self._typed: list[str] = []  # work that stands on the screen already
        self._well = True
        self._away = False

    def run(self) -> int:
        """Until the person leaves, or the input ends and the agent has; an exit code."""
        first = self._fetch(0)
        self._agent = first.agent_id  # whatever it is called from now on
        self._status = first.status
        self._apply(first)
        if self._status == SessionState.CLOSED:
            self._note(f"{self._agent} was ended for good, and takes no further work")
            return CLOSED
        if self._here and not self._json:
            name = f"{first.title} ({self._agent})" if first.title else self._agent
            self._note(f"{name}, {first.provider} in mode {first.current_mode_id}, is {self._status}. /help")
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            return self._converse()
        except KeyboardInterrupt:
            self._note(f"{self._agent} works on")
            return INTERRUPTED

    # Input.

    def _converse(self) -> int:
        warned = False
        while True:
            try:
                line = self._screen.ask()
                warned = False
                if not self._run_line(line):
                    return 0
            except EOFError:
                if self._screen.typed:
                    output.print_line()
                return 0 if self._here else self._finish()
            except KeyboardInterrupt:
                if warned or not self._here:
                    raise
                warned = True
                self._note(f"\n{HOW_TO_LEAVE}")
            except GatepostError as error:
                if isinstance(error, Unavailable) and not self._here:
                    raise  # the other lines of a pipe would meet the same
                self._well = False
                self._screen.print(str(error), error=True)

    def _run_line(self, line: str) -> bool:
        """False: leave."""
        if not line.strip():
            return True
        if self._here and line.strip().lower() in ("y", "n") and self._asks_yes_or_no():
            line = "/allow" if line.strip().lower() == "y" else "/deny"
        order = parse_command(line)
        match order.verb:
            case "":
                self._prompt(order.text, PromptPolicy.QUEUE, line)
            case "steer" | "interrupt":
                self._prompt(order.text, order.verb, line)
            case "allow" | "deny" | "answer":
                self._answer(order.verb, order.text)
            case "stop":
                done = self._do(StopAgentArgs, {"id": self._agent})
                self._note("it is stopped, and what waited is cancelled" if done.stopped else "nothing was running")
            case "mode":
                agent = self._do(SetAgentModeArgs, {"id": self._agent, "mode": order.text})
                self._note(f"it is in mode {agent.current_mode_id} from its next turn on")
            case "help":
                self._note(HELP)
            case "detach" | "quit":
                return False
            case _:
                raise Invalid(f"/{order.verb}", f"is no command (/help lists them); //{line[1:]} sends it as it is")
        return True

    def _prompt(self, text: str, policy: str, line: str) -> None:
        if not text.strip():
            raise Invalid(f"/{policy}", "wants a text")
        with self._lock:
            if self._screen.typed:
                self._typed.append(clean(text))
        try:
            self._do(PromptAgentArgs, {"id": self._agent, "text": text, "policy": policy})
        except GatepostError:
            with self._lock:
                self._typed.clear()  # better shown twice than not at all
            raise
        with self._lock:
            questions = [each for each in self._asked.values() if each.kind == RequestKind.QUESTION]
        if self._here and questions and policy == PromptPolicy.QUEUE:
            self._note("that is work for later; it waits for an answer first: /answer text")

    def _asks_yes_or_no(self) -> bool:
        with self._lock:
            return [each.kind == RequestKind.QUESTION for each in self._asked.values()] == [False]

    def _answer(self, verb: str, text: str) -> None:
        number, said = parse_number(text)
        if not self._here:
            self._wait_until_idle()  # a pipe is quicker than any agent: what it answers may not have been asked yet
            self._apply(self._fetch(0))
        with self._lock:
            waiting = {self._rows.numbers[key]: each for key, each in self._asked.items()}
        if verb == "answer" and number is not None and number not in waiting and len(waiting) == 1:
            number, said = None, text  # an answer that begins with a number
        if number is None and len(waiting) != 1:
            many = f"say which: {', '.join(f'/{verb} {each}' for each in sorted(waiting))}"
            raise Invalid(f"/{verb}", many if waiting else "it asks for nothing")
        request = next(iter(waiting.values())) if number is None else waiting.get(number)
        if request is None:
            raise Invalid(str(number), "does not wait for an answer")
        self._do(AnswerRequestArgs, parse_answer(verb, said, request))

    # Output.

    def _listen(self) -> None:
        """Go on after a break where it broke off."""
        while True:
            begun = time.monotonic()
            try:
                news = self._fetch(0 if self._away else FOLLOW_S)
                self._receive(news)
                if not news.entries and time.monotonic() - begun < RETRY_S:
                    time.sleep(RETRY_S / 10)  # a gateway that stops keeps nobody
            except Unavailable as error:
                if error.lasting:
                    self._note(str(error))
                    return
                self._report_disconnect()
                time.sleep(RETRY_S)
            except ControlError as error:
                self._note(str(error))
                return
            except BrokenPipeError:
                os._exit(1)  # whoever read us has enough, and the other thread waits for a line

    def _report_disconnect(self) -> None:
        with self._lock:
            was_away, self._away = self._away, True
        if not was_away:
            self._note(AWAY)

    def _receive(self, news: AgentNews) -> None:
        with self._lock:
            back, self._away = self._away, False
        if back:
            self._note(BACK)
        self._apply(news)

    def _apply(self, news: AgentNews) -> None:
        """Both threads may have asked: what one has shown the other leaves out, and what is older says nothing."""
        with self._lock:
            if news.next < (self._cursor or 0):
                return
            self._asked = {each.id: each for each in news.permissions}
            for entry in news.entries:
                if self._cursor is None or entry.seq > self._cursor:
                    self._show(entry)
            self._cursor = news.next
            for asked in self._asked.values():
                self._show_request(asked)
            before, self._status = self._status, news.status
            if self._here and not self._json and before != self._status and self._status not in UNFINISHED:
                self._note(f"[{self._status}]")

    def _show(self, entry: LogEntry) -> None:
        text = entry.data.get("text")
        if entry.kind == TimelineKind.USER_MESSAGE and text in self._typed:
            self._typed.remove(text)
        elif self._json:
            output.print_json_line(make_entry_json(entry, self._asked))
            sys.stdout.flush()
            self._rows.render_entry(entry, self._asked)  # numbers its requests
        elif (shown := self._rows.render_entry(entry, self._asked)) is not None:
            self._screen.print(shown)

    def _show_request(self, asked: PendingRequest) -> None:
        shown = self._rows.render_request(asked)
        if shown is not None and self._json:
            output.print_json_line(make_request_json(asked))
            sys.stdout.flush()
        elif shown is not None:
            self._screen.print(shown)

    # The end of a pipe.

    def _finish(self) -> int:
        outcome = self._wait_until_idle()
        while (news := retry_unavailable(lambda: self._fetch(0), self._report_disconnect, harmless=True)).entries:
            self._apply(news)
        self._apply(news)
        if outcome.permission is not None:
            self._note(render_waiting_agent(outcome, outcome.permission))
        return get_exit_code(outcome) if self._well else get_exit_code(outcome) or 1

    def _wait_until_idle(self) -> WaitOutcome:
        """Until it has nothing to do, asks, or the time is up."""
        while True:
            left = FOLLOW_S if self._until is None else max(self._until - time.monotonic(), 0)
            outcome = self._do(WaitForAgentArgs, {"id": self._agent, "timeout_s": min(left, FOLLOW_S)})
            if not outcome.waited_out or (self._until is not None and time.monotonic() >= self._until):
                return outcome

    # The gateway.

    def _fetch(self, timeout: float) -> AgentNews:
        with self._lock:
            seen = {"after": self._cursor, "status": self._status, "asked": list(self._asked)}
        limit = {"limit": self._last} if seen["after"] is None else {}
        args = {"id": self._agent, "timeout_s": timeout, **seen, **limit}
        return post_operation(self._control, FollowAgentArgs, args)

    def _do(self, declared: type[OperationArgs[R]], args: dict[str, Any]) -> R:
        if self._here:
            return post_operation(self._control, declared, args)
        # Nobody is there who could say it again.
        return retry_unavailable(
            lambda: post_operation(self._control, declared, args),
            self._report_disconnect,
            harmless=declared is WaitForAgentArgs,
        )

    def _note(self, text: str) -> None:
        """Ours; beside the entries where a program reads them."""
        if self._here and not self._json:
            self._screen.print(output.colored(text, "dim"))
        else:
            output.print_line(text, error=True, flush=True)
