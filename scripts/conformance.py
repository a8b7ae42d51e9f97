"""`make conformance`: the official suite of MCP against a gateway of its own, for each frozen set of requirements.

The suite comes by npm into `programs/` of the environment. It knows no tokens, so a small proxy stands between: it adds
ours to every request, and changes nothing else. Prints one line for each scenario and exits with 1 if one fails that is
not in `conformance/not_applicable.toml`.
"""

import asyncio
import contextlib
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import npm
from gatepost.core.home import Home
from gatepost.serve.control.client import ControlClient
from gatepost_testing.daemon import DaemonProcess

HERE = Path(__file__).parent / "conformance"
SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
REVISIONS = ("2025-11-25", "2026-07-28")
ENOUGH_S = 300.0
STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\dA-Z.-]*$")  # when it was run, at the end of a folder's name
GOOD = ("SUCCESS", "INFO", "SKIPPED", "WARNING")  # a warning is about what a server may leave out


@contextlib.asynccontextmanager
async def proxy(port: int, token: str) -> AsyncIterator[int]:
    """One request on each connection, so that the token is added to each."""

    async def pump(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await read.read(65536):
                write.write(data)
                await write.drain()
        write.close()

    async def serve(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        try:
            head = await read.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError):
            write.close()
            return
        lines = [line for line in head[:-4].split(b"\r\n") if not line.lower().startswith(b"connection:")]
        lines += [b"Authorization: Bearer " + token.encode(), b"Connection: close"]
        gateway_read, gateway_write = await asyncio.open_connection("127.0.0.1", port)
        gateway_write.write(b"\r\n".join(lines) + b"\r\n\r\n")
        await asyncio.gather(pump(read, gateway_write), pump(gateway_read, write))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def run(command: list[str], url: str, revision: str, out: Path) -> None:
    arguments = ["server", "--url", url, "--requirements", revision, "-o", str(out)]
    env = {**os.environ, "NO_COLOR": "1"}
    child = await asyncio.create_subprocess_exec(
        *command, *arguments, env=env, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    await asyncio.wait_for(child.wait(), ENOUGH_S)


def judge(out: Path, reasons: dict[str, str]) -> list[tuple[str, str, str]]:
    """(scenario, verdict, why) of each scenario that was run."""
    found = []
    for folder in sorted(out.iterdir()):
        scenario = STAMP.sub("", folder.name.removeprefix("server-"))
        checks = json.loads((folder / "checks.json").read_text())
        bad = [check for check in checks if check["status"] not in GOOD]
        excused = {check["id"]: excuse(scenario, check["id"], reasons) for check in bad}
        wrong = [f"{check['id']}: {check.get('errorMessage', '')}" for check in bad if not excused[check["id"]]]
        if wrong:
            found.append((scenario, "failed", "; ".join(wrong)))
        elif bad and excuse(scenario, "", reasons):
            found.append((scenario, "not applicable", excuse(scenario, "", reasons)))
        else:
            left = "; ".join(f"{check} does not apply: {why}" for check, why in excused.items())
            found.append((scenario, "passed", left))
    return found


def excuse(scenario: str, check: str, reasons: dict[str, str]) -> str:
    for pattern, why in reasons.items():
        if fnmatch.fnmatch(scenario, pattern) or (check and fnmatch.fnmatch(f"{scenario}/{check}", pattern)):
            return why
    return ""


async def all_revisions(daemon: DaemonProcess, command: list[str], folder: Path) -> int:
    reasons = tomllib.loads((HERE / "not_applicable.toml").read_text())
    status = ControlClient(Home(daemon.home).control).get("/v1/status")["result"]
    port = int(status["control_listen"].rpartition(":")[2])
    failed = 0
    async with proxy(port, (daemon.home / "control.token").read_text().strip()) as here:
        for revision in REVISIONS:
            out = folder / revision
            await run(command, f"http://127.0.0.1:{here}/mcp/groups/home", revision, out)
            found = judge(out, reasons) if out.is_dir() else []
            for scenario, verdict, why in found:
                print(f"{revision}  {verdict:14}  {scenario}" + (f"  ({why})" if why else ""))
            count = Counter(verdict for _, verdict, _ in found)
            print(
                f"{revision}: {count['passed']} passed, {count['not applicable']} not applicable,"
                f" {count['failed']} failed\n",
                flush=True,
            )
            failed += count["failed"] + (not found)
    return failed


def main() -> int:
    try:
        command = [str(npm.node()), str(npm.package("conformance", SUITE) / "dist" / "index.js")]
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"conformance: the suite cannot be installed: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        home.prepare()
        (home.plugins / "tools").mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "tools.py", home.plugins / "tools" / "conformance.py")
        with DaemonProcess(home.path, control_listen="127.0.0.1:0") as daemon:
            failed = asyncio.run(all_revisions(daemon, command, Path(folder)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
