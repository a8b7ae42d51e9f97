"""Make a small home with an earlier version, for `tests/stores/`: what that version left when it was killed at work.

    python scripts/make_kept_home.py 224f0de tests/stores/home_0_1.tar.gz

The version's source is taken from the history and runs on today's libraries. In the home are conversations with the
demo agent, a second group, a rule, and messages that were on their way when the gateway was killed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAID = ("note The ferry goes at six.", "hello", "notes")
WAITING = "note The bins go on Tuesday."
LEFT_OUT = ("run", "logs", "gatepost.lock", "gatepost.pid.json", "keyring.json", "control.token")
TASK = ("--room", "terminal:main", "--text", "Good morning.", "--every", "24h")
READY_S = 30.0


def main() -> int:
    commit, target = sys.argv[1], Path(sys.argv[2]).absolute()
    with tempfile.TemporaryDirectory(prefix="gp-") as folder:
        source, home = Path(folder, "s"), Path(folder, "h")
        source.mkdir()
        packed = Path(folder, "s.tar")
        subprocess.run(["git", "-C", str(ROOT), "archive", "-o", str(packed), commit, "src"], check=True)
        shutil.unpack_archive(packed, source, filter="data")
        fill(home, source / "src", Path(folder))
        target.parent.mkdir(exist_ok=True)
        with tarfile.open(target, "w:gz") as tar:
            for path in sorted(home.iterdir()):
                if path.name not in LEFT_OUT:
                    tar.add(path, path.name)
    print(f"{target}: {target.stat().st_size:,} bytes")
    return 0


def fill(home: Path, source: Path, folder: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(source), "GATEPOST_LISTEN": "127.0.0.1:0"}
    base = [sys.executable, "-m", "gatepost", "--home", str(home)]

    def run(*words: str) -> int:
        return subprocess.run([*base, *words], env=env, check=False, timeout=60).returncode

    with Path(folder, "log").open("wb") as log:
        daemon = subprocess.Popen([*base, "up"], env=env, stdout=log, stderr=log)
        until = time.monotonic() + READY_S
        while run("status") != 0:
            if time.monotonic() > until:
                raise SystemExit(Path(folder, "log").read_text()[-2000:])
            time.sleep(0.2)
        run("group", "add", "acme")
        for each in SAID:
            run("chat", "-m", each, "--wait")
        run("task", "add", "home", *TASK)  # 0.1 and 0.2 had none, and say so
        run("chat", "-m", WAITING)
        daemon.send_signal(signal.SIGKILL)  # at work
        daemon.wait()


if __name__ == "__main__":
    sys.exit(main())
