"""Several gateways spend one budget at once, and one of them is killed with calls in flight.

Each is a process with a whole gateway; what it pays for calls goes through its own till. The database itself is the
judge: a trigger notes the most that was ever spent and set aside together.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from msgspec import Struct

from gatepost.app import Gateway
from gatepost.core.clock import Period
from gatepost.core.home import Home
from gatepost.core.keyring import FILE, Keyring
from gatepost.core.money import render_usd
from gatepost.egress.call_payments import CallPayments
from gatepost.egress.contract import BudgetShortage, CallCost, ReservationHandle, Spender
from gatepost.egress.http import HttpRefusal
from gatepost.egress.upstream import Bill
from gatepost.flow.group_egress import StoreBudget
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.money.costs import TokenCounts
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.gateway import running_gateway
from gatepost_testing.servers.postgres import PostgresServer
from gatepost_testing.storms.storm import LIMIT_S, MODE, StormTime, storm
from gatepost_testing.waiting import PATIENCE_S, block_until

FOLDER, DATABASE = "acme", "money"
LIMIT, WORST, LEAST, MOST = 1_000_000, 30_000, 3_000, 9_000  # millionths of a USD
HELD = 5  # calls of the gateway that is killed
BUSY = 429
PAUSE_S = 0.25  # before a call that may fit later is tried again

_JUDGE = f"""
CREATE TABLE storm_peak (micro BIGINT);
CREATE FUNCTION storm_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO storm_peak VALUES (NEW.spent + NEW.reserved); RETURN NULL;
END $$;
CREATE TRIGGER storm_spending AFTER INSERT OR UPDATE ON spending FOR EACH ROW
  WHEN (NEW.kind = 'group' AND NEW.name = '{FOLDER}' AND NEW.period = 'month') EXECUTE FUNCTION storm_note();
"""


class MoneyCounts(Struct, frozen=True, kw_only=True):
    seed: int
    calls: int  # that gateways answered for, but for the killed one
    passed: int
    peak: int  # the most that was spent and set aside at any commit
    spent: int
    booked: int  # the sum of all costs
    reserved: int  # at the end
    notes: tuple[int, ...]  # percents that people were told: what a killed one had may take it from below 80 to the end
    held: int  # calls in flight of the one that was killed
    held_booked: tuple[int, ...]  # what each of them cost
    takeover_s: float  # from the kill until they were booked

    def list_faults(self) -> list[str]:
        """Return what went wrong; empty: nothing did."""
        wrong = {
            f"{self.peak} was spent and set aside, {LIMIT} is the limit": self.peak > LIMIT,
            f"{self.spent} is spent by the budget, {self.booked} by its costs": self.spent != self.booked,
            f"{self.reserved} is set aside for nothing": bool(self.reserved),
            f"people were told {self.notes}": len(self.notes) != len(set(self.notes)) or budgets.STOP not in self.notes,
            f"calls in flight were booked as {self.held_booked}": self.held_booked != (WORST,) * self.held,
            "no call was in flight": not self.held,
        }
        return [what for what, is_so in wrong.items() if is_so]

    def list_times(self) -> list[StormTime]:
        return [StormTime("takeover", self.takeover_s, LIMIT_S)]

    def render(self) -> str:
        return (
            f"seed {self.seed}, {self.calls} calls, {self.passed} passed, at most {render_usd(self.peak)} of"
            f" {render_usd(LIMIT)}, {self.held} in flight of a killed one booked, told at {self.notes}"
        )


def run_money_storm(
    server: PostgresServer,
    folder: Path,
    *,
    gateways: int = 4,
    calls: int = 50,
    seed: int = 7,
    env: Mapping[str, str] | None = None,
) -> MoneyCounts:
    """`env`: of the gateways' processes."""
    url = server.add_database(DATABASE)
    names = [f"g{number}" for number in range(gateways)]
    _share_keys(folder, names)
    with ExitStack() as stack:
        spenders = [
            stack.enter_context(_SpenderProcess(folder, url, name, seed + number, calls, env))
            for number, name in enumerate(names)
        ]
        for each in spenders:
            each.receive("ready")
        server.execute(_JUDGE, DATABASE)
        victim, *others = spenders
        held = victim.ask("hold")["held"]
        for each in others:
            each.send("spend")
        block_until(lambda: _read_number(server, "SELECT COUNT(*) FROM costs") >= calls // 5, "calls to be paid for")
        victim.process.kill()
        killed = time.monotonic()
        block_until(
            lambda: not _read_number(server, "SELECT COUNT(*) FROM reservations WHERE gateway = 'g0'"), "a takeover"
        )
        took = time.monotonic() - killed
        answers = [each.receive("spent") for each in others]
        return _count(server, seed, answers, held, took)


def _share_keys(folder: Path, names: list[str]) -> None:
    for name in names:
        Home(folder / name).prepare()
    first = Home(folder / names[0])
    Keyring(first).add_key()
    for name in names[1:]:
        path = folder / name / FILE
        path.write_bytes((first.path / FILE).read_bytes())
        path.chmod(0o600)


def _count(
    server: PostgresServer, seed: int, answers: list[dict[str, int]], held: list[int], took: float
) -> MoneyCounts:
    def number(sql: str) -> int:
        return _read_number(server, sql)

    keys = ", ".join(f"'reservation/{each}'" for each in held)
    costs = server.execute(f"SELECT micro FROM costs WHERE key IN ({keys}) AND measured = 0", DATABASE).split()
    notes = server.execute("SELECT key FROM outbox WHERE starts_with(key, 'notice/budget/')", DATABASE).split()
    spending = f"FROM spending WHERE kind = 'group' AND name = '{FOLDER}' AND period = 'month'"
    return MoneyCounts(
        seed=seed,
        calls=sum(each["passed"] + each["refused"] for each in answers),
        passed=sum(each["passed"] for each in answers),
        peak=number("SELECT COALESCE(MAX(micro), 0) FROM storm_peak"),
        spent=number(f"SELECT spent {spending}"),
        booked=number("SELECT COALESCE(SUM(micro), 0) FROM costs"),
        reserved=number(f"SELECT reserved {spending}") + number("SELECT COUNT(*) FROM reservations"),
        notes=tuple(int(each.split("/")[3]) for each in notes),
        held=len(held),
        held_booked=tuple(map(int, costs)),
        takeover_s=took,
    )


def _read_number(server: PostgresServer, sql: str) -> int:
    return int(server.execute(sql, DATABASE).strip())


class _SpenderProcess:
    def __init__(self, folder: Path, url: str, name: str, seed: int, calls: int, env: Mapping[str, str] | None) -> None:
        self.name = name
        self._command = [sys.executable, "-m", __name__, str(folder / name), url, name, str(seed), str(calls)]
        self._env, self._log = env, folder / f"{name}.log"

    def __enter__(self) -> "_SpenderProcess":
        self._errors: IO[bytes] = self._log.open("wb")
        self.process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **(self._env or {})},
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._errors.close()

    def ask(self, word: str) -> dict[str, list[int]]:
        self.send(word)
        answer: dict[str, list[int]] = self.receive(word)  # type: ignore[assignment]
        return answer

    def send(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def receive(self, what: str) -> dict[str, int]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"{self.name} ended before it was {what}: {self._log.read_text()[-2000:]}"
        answer: dict[str, int] = json.loads(line)
        return answer


# In the process of a gateway.


class _RandomPrice:
    """A call whose cost is known beforehand here, and below what is set aside for it."""

    model, worst, tokens = "scripted-1", WORST, TokenCounts(output=1)

    def __init__(self, micro: int) -> None:
        self._micro = micro

    def actual(self, bill: Bill) -> CallCost:
        return CallCost(self._micro, self.tokens)


class _NotingBudget(StoreBudget):
    """Remembers which reservations were made."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway.store, gateway.clock, gateway.channels, gateway.events)
        self.made: list[int] = []

    async def reserve(
        self, spender: Spender, model: str, worst: int, tokens: TokenCounts
    ) -> ReservationHandle | BudgetShortage:
        held = await super().reserve(spender, model, worst, tokens)
        if isinstance(held, ReservationHandle):
            self.made.append(held.id)
        return held


def _settle(db: Db, name: str, now: int) -> str:
    if groups.get(db, FOLDER) is None:
        groups.add(db, FOLDER, FOLDER, "", now)
    budgets.put(db, BudgetScope(BudgetScopeKind.GROUP, FOLDER), Period.MONTH, LIMIT, "storm", now)
    return sessions.find_or_add(db, SessionMode.SHARED, FOLDER, "fake", f"fake:room/{name}", "", now).id


async def _pay(till: CallPayments, spender: Spender, micro: int, hang: asyncio.Event | None) -> bool:
    """Return True if the call passed. One that may fit later is tried again, as agents do."""
    while True:
        try:
            async with till.paid(spender, _RandomPrice(micro)):
                if hang is not None:
                    await hang.wait()
                await asyncio.sleep(micro / 1_000_000)  # longer calls cost more
            return True
        except HttpRefusal as no:
            if no.status != BUSY:
                return False
            await asyncio.sleep(PAUSE_S)


async def _serve(folder: Path, url: str, name: str, seed: int, calls: int) -> None:
    drawn = random.Random(seed)
    given: dict[str, Any] = {"store__url": url, "store__unsafe": True, "gateway__name": name, "sessions__most_awake": 0}
    async with running_gateway(folder, **given) as gateway:
        spender = Spender(FOLDER, await gateway.store.write(_settle, name, gateway.clock.now()), None)
        purse = _NotingBudget(gateway)
        till = CallPayments(purse)
        _print({"ready": 1})
        word = (await asyncio.to_thread(sys.stdin.readline)).strip()
        prices = [drawn.randint(LEAST, MOST) for _ in range(calls)]
        hang = asyncio.Event() if word == "hold" else None
        work = [
            asyncio.create_task(_pay(till, spender, micro, hang if number < HELD else None))
            for number, micro in enumerate(prices)
        ]
        if hang is not None:
            while len(purse.made) < HELD:  # noqa: ASYNC110  nobody rings for it
                await asyncio.sleep(0.005)
            _print({"held": purse.made[:HELD]})
        passed = await asyncio.gather(*work)
        _print({"passed": sum(passed), "refused": calls - sum(passed)})
        await asyncio.to_thread(sys.stdin.readline)  # it lives, and keeps its lease, until it is ended


def _print(answer: Mapping[str, object]) -> None:
    print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))


@storm(MODE, "money")
def run_with_server(folder: Path, seed: int) -> MoneyCounts:
    with PostgresServer() as server:
        return run_money_storm(server, folder, seed=seed)
