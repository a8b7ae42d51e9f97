"""The runner: our process inside the sandbox. Mailbox in, provider, mailbox out.

It opens `runner.sock` once, before the provider starts; when that ends, so does the runner. Authority is the host's:
which rows, which turn, whether a result counts. Everything it needs to know is in the environment (GATEPOST_RUN,
GATEPOST_WORKSPACE, GATEPOST_AGENT, GATEPOST_START, GATEPOST_SKILLS, GATEPOST_PROVIDER, GATEPOST_PLUGINS) and in the
host's Welcome.
"""

import asyncio
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gatepost.inside.drafts import DraftSender
from gatepost.inside.gateway_socket import GatewayDisconnected, GatewaySocket
from gatepost.inside.inbox_reader import InboxReader, WakeEvent
from gatepost.inside.providers.contract import PROVIDERS, Misconfigured, Provider, ProviderContext, TurnFailed
from gatepost.inside.turn import RunnerTurn, result_frame
from gatepost.mailbox import runner_frames
from gatepost.mailbox.inbound import InboundRow
from gatepost.mailbox.outbound import OutboundDb
from gatepost.mailbox.runner_frames import TurnErrorClass

if TYPE_CHECKING:
    from gatepost.inside.transcribe import AttachmentTranscriber

PING = 2.0
FAREWELL = 1.0  # seconds that a provider has to close


class RunnerSetup(msgspec.Struct, frozen=True, kw_only=True):
    run: Path
    workspace: Path
    agent: Path
    start: Path
    skills: Path
    plugins: Path | None
    provider: str


def read_setup(env: dict[str, str]) -> RunnerSetup:
    workspace = Path(env.get("GATEPOST_WORKSPACE", "/workspace"))
    agent = env.get("GATEPOST_AGENT", str(workspace / "agent"))
    return RunnerSetup(
        run=Path(env.get("GATEPOST_RUN", "/run/gatepost")),
        workspace=workspace,
        agent=Path(agent),
        start=Path(env.get("GATEPOST_START", agent)),
        skills=Path(env.get("GATEPOST_SKILLS", str(workspace / "skills"))),
        plugins=Path(env["GATEPOST_PLUGINS"]) if env.get("GATEPOST_PLUGINS") else None,
        provider=env.get("GATEPOST_PROVIDER", ""),
    )


class ProviderNotFound(Misconfigured):
    """There is no provider of that name here, or its file does not load."""


def find_provider(name: str, plugins: Path | None) -> Callable[[ProviderContext], Provider]:
    """A provider is named by its file, the package's own or one of the plug-in folder. No other file is loaded: what is
    wrong with one provider is no other's trouble."""
    if name not in PROVIDERS:
        own, plugged = _load_own_provider(name), _find_plugin(name, plugins)
        if own and plugged is not None:
            raise ProviderNotFound(f"two providers are named {name!r}: gatepost's own and {plugged}; rename yours")
        if plugged is not None:
            _load_file(name, plugged)
    if name not in PROVIDERS:
        raise ProviderNotFound(f"there is no provider named {name!r}")
    return PROVIDERS[name]


def _load_own_provider(name: str) -> bool:
    if not name.replace("_", "").isalnum() or name == "contract":
        return False
    module = f"gatepost.inside.providers.{name}"
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return False
    return True


def _find_plugin(name: str, plugins: Path | None) -> Path | None:
    if plugins is None or "/" in name or name.startswith((".", "_")):
        return None
    return next((path for path in (plugins / f"{name}.py", plugins / name / "__init__.py") if path.is_file()), None)


def _load_file(provider: str, path: Path) -> None:
    name = f"gatepost_plugins.providers.{provider}"
    spec = importlib.util.spec_from_file_location(name, path)
    if name in sys.modules or spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ProviderNotFound(f"the plug-in {path.name} does not load: {type(error).__name__}: {error}") from error


class Runner:
    def __init__(self, setup: RunnerSetup, link: GatewaySocket, welcome: runner_frames.WelcomeFrame) -> None:
        self._setup, self._link, self._welcome = setup, link, welcome
        self._name = welcome.provider or setup.provider
        self._box = OutboundDb(setup.workspace / "out" / "outbound.db")
        if self._box.trouble:
            link.send(runner_frames.ErrorFrame(what="outbound", why=self._box.trouble[: runner_frames.LONGEST_TROUBLE]))
        self._mail = InboxReader(setup.workspace / "in" / "inbound.db", self._box, link, welcome)
        self._transcriber = (
            self._make_transcriber() if welcome.options.get("transcribe") not in (None, "", "off") else None
        )
        self._bell = WakeEvent()
        self._drafts = DraftSender(link.send)
        self._make = find_provider(self._name, setup.plugins)
        self._provider: Provider | None = None
        self._turn: RunnerTurn | None = None
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._background: set[asyncio.Task[None]] = set()

    def _make_transcriber(self) -> "AttachmentTranscriber":
        from gatepost.inside.transcribe import AttachmentTranscriber  # costs a runner that hears nothing nothing

        return AttachmentTranscriber(self._setup.run, self._setup.workspace, self._name, self._welcome.options)

    async def run(self) -> None:
        """Until the host hangs up or says Close. Raises what went wrong."""
        self._bell.ring()  # somebody woke us for a reason
        tasks = [
            asyncio.create_task(self._link.listen(self._receive)),
            asyncio.create_task(self._work()),
            asyncio.create_task(self._ping()),
        ]
        done, _ = await asyncio.wait([*tasks, self._closed], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            error = task.exception()
            if error is not None and not isinstance(error, GatewayDisconnected):
                raise error

    def close_box(self) -> None:
        """The last thing: its log goes with it."""
        self._box.close()

    async def close(self) -> None:
        if self._provider is not None:
            try:
                async with asyncio.timeout(FAREWELL):
                    await self._provider.close()
            except TimeoutError:
                pass

    # What the host says.

    def _receive(self, frame: runner_frames.Frame) -> None:
        match frame:
            case runner_frames.BellFrame():
                self._bell.ring()
            case runner_frames.WatchFrame():
                self._drafts.watch(frame.on)
            case runner_frames.InterruptFrame():
                if self._turn is not None:
                    self._send_off(self._turn.interrupt())
            case runner_frames.PermissionAnswerFrame() if self._provider is not None:
                names = self._turn.asked if self._turn is not None else {}
                named = names.get(frame.request, frame.request)
                self._send_off(self._provider.answer(named, frame.verdict, frame.input))
            case runner_frames.FlushFrame():
                self._send_off(self._flush(frame))
            case runner_frames.WrapUpFrame():
                if self._turn is not None:
                    self._send_off(self._turn.warn(frame.seconds))
            case runner_frames.CloseFrame():
                if not self._closed.done():
                    self._closed.set_result(None)
            case _:
                pass

    def _send_off(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._run_task(work))
        self._background.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._closed.done():
            self._closed.set_exception(error)

    async def _run_task(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (NotImplementedError, LookupError) as error:  # no such mode, no such request
            self._link.send(
                runner_frames.ErrorFrame(
                    what="provider", why=f"{self._name}: {error!r}"[: runner_frames.LONGEST_TROUBLE]
                )
            )

    async def _flush(self, frame: runner_frames.FlushFrame) -> None:
        seen = await self._turn.flush(frame.tool, frame.wait) if self._turn is not None else False
        self._link.send(runner_frames.FlushReplyFrame(id=frame.id, seen=seen))

    async def _ping(self) -> None:
        while True:
            turn = self._turn
            if turn is None:
                self._link.send(runner_frames.PingFrame())
            else:
                patience, tool = turn.tool
                self._link.send(
                    runner_frames.PingFrame(turn=turn.id, epoch=turn.epoch, tool=tool, tool_timeout=patience)
                )
            await asyncio.sleep(PING)

    # The work.

    async def _work(self) -> None:
        await self._resend()
        self._box.remove_marks("processing")
        while True:
            self._mail.remove_stale_marks()
            if not await self._next_turn(self._mail.refresh().waiting):
                await self._bell.wait()

    async def _resend(self) -> None:
        """Post the results that an earlier runner could not. Those that the host refuses are dropped."""
        rows = self._box.list_unacked()
        if rows:
            answers = [self._link.post(result_frame(self._link, row)) for row in rows]
            await asyncio.gather(*answers)
            self._box.mark_acked(row.id for row in rows)
        self._box.prune()

    async def _next_turn(self, waiting: Sequence[InboundRow]) -> bool:
        """Claim a batch and work on it. False: there was nothing for us."""
        ids = [row.id for row in waiting[: runner_frames.MOST_ROWS]]
        begun = sorted(self._box.list_marked("begun"))[-runner_frames.MOST_BEGUN :]
        ready = self._provider is not None
        frame = runner_frames.ClaimFrame(id=self._link.number(), rows=ids, ready=ready, wait=True, begun=begun)
        claimed = await self._link.claim(frame)
        if not claimed.rows:
            return False
        if claimed.rows != ids:
            self._mail.refresh()  # they came while we waited, and what was observed with them
        if self._provider is None:
            self._provider = self._make(self._place())
        turn = RunnerTurn(
            claimed,
            link=self._link,
            mail=self._mail,
            box=self._box,
            bell=self._bell,
            provider=self._provider,
            transcriber=self._transcriber,
            folder=self._setup.start,
            drafts=self._drafts,
        )
        self._turn = turn
        try:
            batch = await self._mail.read(claimed.rows)
            if len(batch) < len(claimed.rows):
                await turn.submit(TurnFailed("the messages could not be read in the sandbox", TurnErrorClass.RETRYABLE))
            else:
                await turn.run(batch)
        finally:
            self._turn = None
        return True

    def _place(self) -> ProviderContext:
        state = self._setup.workspace / "state" / self._name
        state.mkdir(parents=True, exist_ok=True)
        return ProviderContext(
            workspace=self._setup.workspace,
            agent=self._setup.agent,
            start=self._setup.start,
            state=state,
            router=self._setup.run / "router.sock",
            folder=self._welcome.folder,
            name=self._welcome.name,
            model=self._welcome.model,
            timezone=self._welcome.timezone,
            options=self._welcome.options,
            managed=self._welcome.managed,
            rules=self._welcome.rules,
            skills=self._setup.skills,
            skill_lines=tuple(self._welcome.skills),
            more_skills=self._welcome.more_skills,
            is_watched=lambda: self._drafts.is_watched,
        )


async def _run(setup: RunnerSetup) -> int:
    link = await GatewaySocket.open(setup.run / "runner.sock")
    link.send(runner_frames.HelloFrame(protocol=runner_frames.PROTOCOL, pid=os.getpid()))
    runner: Runner | None = None
    try:
        if setup.provider:
            find_provider(setup.provider, setup.plugins)  # while the host prepares its answer
        runner = Runner(setup, link, await link.welcome())
        await runner.run()
    except GatewayDisconnected:
        return 0
    except Exception as error:  # noqa: BLE001  the last thing that this process does is to say why it ends
        traceback.print_exc()
        if isinstance(error, Misconfigured):
            link.send(
                runner_frames.ErrorFrame(what="setup", why=str(error)[: runner_frames.LONGEST_TROUBLE], fatal=True)
            )
        else:
            link.send(
                runner_frames.ErrorFrame(
                    what="runner", why=f"{type(error).__name__}: {error}"[: runner_frames.LONGEST_TROUBLE], fatal=True
                )
            )
        await link.flush()
        return 1
    else:
        await runner.close()
        return 0
    finally:
        if runner is not None:
            runner.close_box()


def main() -> None:
    try:
        code = asyncio.run(_run_and_exit(read_setup(dict(os.environ))))
    except OSError as error:
        sys.stderr.write(f"the runner cannot reach the gateway: {error}\n")
        code = 1
    sys.exit(code)


async def _run_and_exit(setup: RunnerSetup) -> int:
    code = await _run(setup)
    sys.stderr.flush()
    os._exit(code)  # now: a provider's threads and half-closed tasks would keep us


if __name__ == "__main__":
    main()
