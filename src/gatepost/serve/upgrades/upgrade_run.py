"""The course of an upgrade, and the way back.

A new version is installed beside the old one and tried on a copy of the home. Then the gateway stops, what it has is
kept, the place of the program leads to the new version, and that starts and is watched. The kept copy lies beside the
home, so that putting it back does not move it. At each moment there is a version with a store that it can open. On the
way back the store comes first: the new version can open the old store, too.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from gatepost import __version__
from gatepost.core import settings
from gatepost.core.clock import Clock
from gatepost.core.errors import SetupError
from gatepost.core.files.private_files import make_private_folder, sync_folder
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.serve.backups.archive import write_archive
from gatepost.serve.backups.backup_folder import render_bytes
from gatepost.serve.backups.new_backup import make_backup
from gatepost.serve.backups.proof import OF_OURS, prove
from gatepost.serve.backups.restoring import check_exchange, check_folder_beside
from gatepost.serve.upgrades import environments
from gatepost.store.engine.place import StorePlace, get_place
from gatepost.store.engine.readonly import get_newest_version

STATE, BEFORE = "upgrade.json", "before.tar.gz"
LARGEST_STATE = 1024 * 1024
STEP_S, START_S, STOP_S = 1800.0, 900.0, 60.0
LOOK_S, RECOVER_S = 1.0, 20.0  # between two looks; so long it may not answer
LONGEST_SAID = 400
MOST_ERRORS, LOG_TAIL = 5, 4 * 1024 * 1024  # lines of errors that are no sign yet; bytes of the log that are read
SCHEMA_CODE = "from gatepost.store.engine.readonly import get_newest_version as f; print(f())"
Say = Callable[[str], None]


class UpgradeState(Struct, frozen=True, kw_only=True):
    """The facts that the way back needs. `new`, `old`: environments. `switched`: the place leads to `new`."""

    place: str
    old: str
    new: str
    old_version: str
    new_version: str
    old_schema: int
    new_schema: int
    switched: bool = False
    home: str = ""


class RunningGateway(Struct, frozen=True, kw_only=True):
    """How the gateway was started. `unit`: the commands by which a service manager starts it again."""

    words: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    unit: tuple[tuple[str, ...], ...] = ()


class Health(Struct, frozen=True):
    unaccounted: int
    errors: int


class Upgrade:
    def __init__(self, home: Home, clock: Clock, say: Say, unit: Sequence[Sequence[str]] = ()) -> None:
        """`unit`: what starts the gateway of this home, if a service manager does."""
        self._home, self._clock, self._say = home, clock, say
        self._unit = tuple(map(tuple, unit))
        self._folder = home.path.with_name(f".{home.path.name}-upgrade")
        self._place = environments.find_environment()

    # What would change.

    def check(self, source: str) -> UpgradeState:
        """Install the version beside this one, and say what it changes."""
        present = environments.find_present(self._place)
        new = environments.build(self._place, source, self._say)
        try:
            state = UpgradeState(
                place=str(self._place),
                old=str(present),
                new=str(new),
                old_version=__version__,
                new_version=_ask_version(new),
                old_schema=get_newest_version(),
                new_schema=_ask_schema(new),
                home=str(self._home.path),
            )
            if state.new_schema < state.old_schema:
                raise SetupError(
                    f"{state.new_version} is older: it knows schema {state.new_schema}, and the store may have"
                    f" {state.old_schema}; `gatepost upgrade --rollback` or a backup of then leads back"
                )
        except BaseException:
            environments.remove(new, self._place)
            raise
        self._describe(state)
        return state

    def _describe(self, state: UpgradeState) -> None:
        self._say(f"{state.old_version} → {state.new_version}, schema {state.old_schema} → {state.new_schema}")
        changes = environments.list_changes(environments.read_changes(Path(state.new)), environments.read_changes())
        for line in changes[:40]:
            self._say(f"  {line}")
        if len(changes) > 40:
            self._say(f"  … and {len(changes) - 40} more lines of the changelog")
        check_way_back(state, get_place(self._home, settings.load_declared(self._home.path)), self._home)
        if state.new_schema == state.old_schema:
            self._say("the way back keeps the store as it is: both versions open it")
        else:
            self._say("the way back is the backup that is made now: the old version cannot open what the new one wrote")
        wanted = 4 * self._measure()
        self._say(f"it takes about {render_bytes(wanted)} of disk meanwhile")
        if shutil.disk_usage(self._home.path).free < wanted:
            raise SetupError(f"there is no room for it at {self._home.path}: {render_bytes(wanted)} must be free")

    def _measure(self) -> int:
        """The store and what a backup has beside it."""
        trees = (self._home.groups, self._home.sessions, self._home.media, self._home.worktrees, self._home.plugins)
        found = self._home.store.stat().st_size if self._home.store.exists() else 0
        return found + sum(_measure_tree(each) for each in trees)

    def forget(self, state: UpgradeState) -> None:
        environments.remove(Path(state.new), self._place)

    # The upgrade.

    def run(self, state: UpgradeState, watch_s: float) -> None:
        """Raise SetupError if the old version stays, or came back."""
        self._try_on_copy(state)
        gateway = self._find_running()
        before = self._measure_health(Path(state.old)) if gateway is not None else None
        if gateway is not None:
            self._stop(Path(state.old))
        try:
            self._keep(state)
            kept = environments.keep_present(self._place)
            state = structs.replace(state, old=str(kept), switched=True)
            self._write(state)
            environments.switch(self._place, Path(state.new))
        except BaseException:
            if gateway is not None:
                self._start(gateway)
            raise
        self._say(f"switched to {state.new_version}")
        if gateway is None:
            self._say(
                "no gateway was running; `gatepost up` starts the new version, `gatepost upgrade --rollback` leads back"
            )
            return
        trouble = self._start_and_watch(gateway, Path(state.new), before, watch_s)
        if not trouble:
            self._say(f"{state.new_version} runs; `gatepost upgrade --rollback` leads back to {state.old_version}")
            return
        self._say(f"{state.new_version} is worse: {trouble}; going back")
        self._go_back(state)
        self._start(gateway)
        if said := self._wait_until_ready(Path(state.old)):
            raise SetupError(f"{state.old_version} is back, and is not ready: {said}")
        raise SetupError(f"{state.old_version} is back and runs: {state.new_version} was worse: {trouble}")

    def _try_on_copy(self, state: UpgradeState) -> None:
        made = make_backup(self._home, self._clock, proven=True)
        if made.proof is None or made.proof.trouble:
            raise SetupError(f"nothing was changed: the backup cannot be put back: {made.proof and made.proof.trouble}")
        self._say(f"a proven backup is in {made.file}")
        with make_private_folder(self._home.path) as folder:
            copy = folder / "copy.tar.gz"
            write_archive(self._home, copy)
            proof = prove(copy, python=environments.get_python(Path(state.new)))
        if proof.trouble:
            environments.remove(Path(state.new), self._place)
            raise SetupError(f"nothing was changed: {state.new_version} fails on a copy: {proof.trouble}")
        for each in proof.steps:
            self._say(f"✓ with {state.new_version}: {each}")

    def _keep(self, state: UpgradeState) -> None:
        """Keep what there is now, in the clear: this machine must be able to put it back."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)
        write_archive(self._home, self._folder / BEFORE)
        self._write(state)

    def _write(self, state: UpgradeState) -> None:
        new = self._folder / f".{STATE}"
        new.write_bytes(msgspec.json.encode(state))
        new.replace(self._folder / STATE)
        sync_folder(self._folder)

    # The way back.

    def roll_back(self) -> None:
        """Return to the version before the last upgrade."""
        state = self._read()
        if state is None or environments.find_present(self._place) != Path(state.new):
            raise SetupError("there is no upgrade to go back from: this is the version that was there before")
        gateway = self._find_running()
        if gateway is not None:
            self._stop(Path(state.new))
        self._go_back(state)
        self._say(f"{state.old_version} is back")
        if gateway is None:
            return
        self._start(gateway)
        if trouble := self._wait_until_ready(Path(state.old)):
            raise SetupError(f"{state.old_version} is back, and is not ready: {trouble}")

    def _read(self) -> UpgradeState | None:
        try:
            with (self._folder / STATE).open("rb") as file:
                return msgspec.json.decode(file.read(LARGEST_STATE), type=UpgradeState)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _go_back(self, state: UpgradeState) -> None:
        """First the store, then the program."""
        self._end_leftover()
        if state.new_schema != state.old_schema:
            done = _run(
                Path(state.old), self._home, "backup", "restore", str(self._folder / BEFORE), "--replace", "--json"
            )
            if done.returncode:
                raise SetupError(f"{state.new_version} stays: the store of then cannot be put back: {_end_of(done)}")
            aside = json.loads(done.stdout)["before"]
            self._say(f"the store is as it was before the upgrade; what came since is in {aside}")
        environments.switch(self._place, Path(state.old))

    # The gateway.

    def _find_running(self) -> RunningGateway | None:
        holder = home_lock.find_holder(self._home)
        if holder is None:
            return None
        if not holder.is_daemon:
            raise SetupError(f"pid {holder.pid} works on {self._home.path}; try again when it is done")
        try:
            proc = Path("/proc", str(holder.pid))
            raw = (proc / "environ").read_bytes().split(b"\0")
            folder = os.readlink(proc / "cwd")
        except OSError:
            raise SetupError(
                f"how pid {holder.pid} was started cannot be read; run this as the user of the gateway"
            ) from None
        pairs = (os.fsdecode(each).partition("=") for each in raw if b"=" in each)
        environment = {name: value for name, _, value in pairs}
        return RunningGateway(words=holder.argv[1:], environment=environment, folder=folder, unit=self._unit)

    def _stop(self, environment: Path) -> None:
        done = _run(environment, self._home, "down", "--drain", "--timeout", f"{STOP_S:g}")
        if done.returncode:
            raise SetupError(f"nothing was changed: the gateway does not stop: {_end_of(done)}")

    def _end_leftover(self) -> None:
        """A new version that hangs must not keep the old one from its home."""
        holder = home_lock.find_holder(self._home)
        if holder is None or not holder.is_daemon:
            return
        with suppress(ProcessLookupError):
            os.kill(holder.pid, 15)
        until = time.monotonic() + STOP_S
        while home_lock.find_holder(self._home) is not None and time.monotonic() < until:
            time.sleep(LOOK_S / 4)
        if home_lock.find_holder(self._home) is not None:
            with suppress(ProcessLookupError):
                os.kill(holder.pid, 9)

    def _start(self, gateway: RunningGateway) -> None:
        if gateway.unit:
            for each in gateway.unit:
                subprocess.run(each, check=False, capture_output=True, timeout=START_S)
            return
        words = [str(environments.get_python(self._place)), "-m", "gatepost", *gateway.words]
        with (self._folder / "start.log").open("ab") as said:
            subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={name: value for name, value in gateway.environment.items() if name not in OF_OURS},
                cwd=gateway.folder,
                start_new_session=True,
            )

    def _start_and_watch(
        self, gateway: RunningGateway, environment: Path, before: Health | None, watch_s: float
    ) -> str:
        """Return why the new version is worse; '' if it is not."""
        self._start(gateway)
        if trouble := self._wait_until_ready(environment):
            return trouble
        self._say(f"ready; it is watched for {watch_s:g} s")
        until, ill_since = time.monotonic() + watch_s, 0.0
        while time.monotonic() < until:
            if home_lock.find_holder(self._home) is None:
                return f"it ended: {self._read_log_end()}"
            if _run(environment, self._home, "status", "--json").returncode == 0:
                ill_since = 0.0
            elif not ill_since:
                ill_since = time.monotonic()
            elif time.monotonic() - ill_since > RECOVER_S:
                return f"it did not answer for {RECOVER_S:g} s"
            time.sleep(LOOK_S)
        return compare_health(before, self._measure_health(environment))

    def _wait_until_ready(self, environment: Path) -> str:
        until, seen = time.monotonic() + START_S, False
        while time.monotonic() < until:
            holder = home_lock.find_holder(self._home)
            if holder is None and seen:
                return f"it ended as it started: {self._read_log_end()}"
            seen = seen or holder is not None
            if holder is not None and _run(environment, self._home, "status", "--json").returncode == 0:
                return ""
            if not seen and time.monotonic() > until - START_S + RECOVER_S:
                return f"it does not start: {self._read_log_end()}"
            time.sleep(LOOK_S)
        return f"it was not ready after {START_S:g} s"

    def _measure_health(self, environment: Path) -> Health:
        done = _run(environment, self._home, "ledger", "check", "--json")
        try:
            unaccounted = int(json.loads(done.stdout)["unaccounted"])
        except (ValueError, KeyError, TypeError):
            unaccounted = -1
        return Health(unaccounted, self._count_errors())

    def _count_errors(self) -> int:
        data = _read_end(self._home.path / "logs" / "gatepost.log", LOG_TAIL)
        return sum(b'"level":"error"' in line.replace(b": ", b":") for line in data.splitlines())

    def _read_log_end(self) -> str:
        data = _read_end(self._folder / "start.log", LONGEST_SAID).decode(errors="replace")
        return " ".join(data.split()) or "it said nothing"


def check_way_back(state: UpgradeState, place: StorePlace, home: Home) -> None:
    """Raise SetupError where nobody could go back by themselves.

    Other gateways may work on the same database, or no other home can take the place of this one.
    """
    check_folder_beside(home.path)
    if place.url and state.new_schema != state.old_schema:
        raise SetupError(
            "nothing was changed: the store is on PostgreSQL, and a new schema there has no way back by itself. Make a"
            " backup by `gatepost backup create --prove`, stop every gateway, and install the new version by hand; the"
            " way back is the old version and `gatepost backup restore` into an empty database"
        )
    if state.new_schema != state.old_schema:
        check_exchange(home.path)


def compare_health(before: Health | None, after: Health) -> str:
    """Return why it is worse; '' if it is not."""
    if after.unaccounted < 0:
        return "the ledger cannot be checked"
    if before is not None and after.unaccounted > max(before.unaccounted, 0):
        return f"the ledger does not account for {after.unaccounted} messages, and before for {before.unaccounted}"
    more = after.errors - (before.errors if before is not None else 0)
    return f"{more} new errors are in its log" if more > MOST_ERRORS else ""


def _read_end(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - most))
            return file.read(most)
    except OSError:
        return b""


def _measure_tree(path: Path) -> int:
    found = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                found += os.lstat(os.path.join(folder, name)).st_size
    return found


def _run(environment: Path, home: Home, *words: str) -> "subprocess.CompletedProcess[str]":
    base = [str(environments.get_python(environment)), "-m", "gatepost", "--home", str(home.path)]
    try:
        return subprocess.run(
            [*base, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=_make_environment(),
            timeout=STEP_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"`gatepost {words[0]}` was not done after {STEP_S:g} s") from None


def _make_environment() -> dict[str, str]:
    """Ours, but for what would lead another version to our modules."""
    return {name: value for name, value in os.environ.items() if name not in OF_OURS}


def _end_of(done: "subprocess.CompletedProcess[str]") -> str:
    return " ".join((done.stderr or done.stdout).split())[-LONGEST_SAID:]


def _ask(environment: Path, *words: str) -> str:
    done = subprocess.run(
        [str(environments.get_python(environment)), *words],
        capture_output=True,
        text=True,
        env=_make_environment(),
        timeout=STEP_S,
        check=False,
    )
    if done.returncode:
        raise SetupError(f"what was installed does not run: {_end_of(done)}")
    return done.stdout.strip()


def _ask_version(environment: Path) -> str:
    return _ask(environment, "-c", "import gatepost; print(gatepost.__version__)")


def _ask_schema(environment: Path) -> int:
    return int(_ask(environment, "-c", SCHEMA_CODE))
