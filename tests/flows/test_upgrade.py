"""An upgrade of a real gateway in an environment of its own: to a version that is well, to one that fails on the copy,
and to one that ends after a while."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gatepost
from gatepost.core.home import Home
from gatepost.core.process import home_lock

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(gatepost.__file__).parents[2]
STEP = '''"""A step of a later version."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    {body}
'''
MAKES_A_TABLE = 'db.define("CREATE TABLE later (id {id}) {strict}")'
FAILS = 'db.run("UPDATE no_such_table SET a = 1")'
PLACE = "                await self._announce()"
ENDS = '                loop.call_later(3, os._exit, 3) if "upgraded" in str(self.home.path) else None\n' + PLACE


class Installed:
    """A gateway that was installed as people do, and its home."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.environment, self.home = folder, folder / "env", Home(folder / "upgraded")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("GATEPOST", "PYTHON"))}
        self.env |= {
            "GATEPOST_SESSIONS_PROVIDER": "demo",
            "GATEPOST_LISTEN": f"unix:{folder}/web.sock",
            "XDG_STATE_HOME": str(folder / "state"),
        }
        subprocess.run([sys.executable, "-m", "venv", self.environment], check=True)
        pip = [self.environment / "bin" / "pip", "install", "--quiet", f"{ROOT}[backup]"]
        subprocess.run(pip, check=True, capture_output=True)

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        base = [self.environment / "bin" / "python", "-m", "gatepost", "--home", self.home.path]
        return subprocess.run([*base, *words], env=self.env, capture_output=True, text=True, timeout=1200, check=False)

    def start(self) -> None:
        words = [self.environment / "bin" / "python", "-m", "gatepost", "--home", self.home.path, "up"]
        subprocess.Popen(words, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.run("status").returncode:
            pass

    def end(self) -> None:
        self.run("down")
        holder = home_lock.find_holder(self.home)
        assert holder is None, "a gateway was left"

    def get_version(self) -> str:
        code = "import gatepost; print(gatepost.__version__)"
        words = [self.environment / "bin" / "python", "-c", code]
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=True).stdout.strip()

    def make_later(self, name: str, body: str, announce: str = PLACE) -> str:
        target = self.folder / name
        shutil.copytree(ROOT / "src", target / "src", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "ops", target / "ops")
        for each in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
            shutil.copy(ROOT / each, target / each)
        package = target / "src" / "gatepost"
        (package / "store" / "migrations" / "0999_later.py").write_text(STEP.replace("{body}", body))
        version, daemon = package / "__init__.py", package / "daemon.py"
        version.write_text(version.read_text().replace(gatepost.__version__, "99.0"))
        assert daemon.read_text().count(PLACE) == 1
        daemon.write_text(daemon.read_text().replace(PLACE, announce))
        changes = target / "CHANGELOG.md"
        changes.write_text(changes.read_text().replace("## [Unreleased]\n", "## [Unreleased]\n\n- Later.\n", 1))
        return str(target)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    made = Installed(tmp_path_factory.mktemp("u"))
    made.start()
    assert made.run("chat", "-m", "note The ferry goes at six.", "--wait").returncode == 0
    yield made
    made.end()


def test_a_version_that_fails_on_the_copy_is_removed_and_the_gateway_has_not_noticed(installed: Installed) -> None:
    before = home_lock.find_holder(installed.home)
    done = installed.run("upgrade", "--to", installed.make_later("fails", FAILS), "--watch", "3")
    assert done.returncode == 1 and "no such table" in done.stderr and "nothing was changed" in done.stderr
    assert home_lock.find_holder(installed.home) == before and installed.get_version() == gatepost.__version__


def test_a_version_that_ends_after_a_while_is_left_again_by_itself(installed: Installed) -> None:
    done = installed.run("upgrade", "--to", installed.make_later("ends", MAKES_A_TABLE, ENDS), "--watch", "12")
    assert done.returncode == 1 and "is back and runs" in done.stderr, done.stdout + done.stderr
    assert installed.get_version() == gatepost.__version__
    assert "six" in installed.run("chat", "-m", "notes", "--wait").stdout


def test_a_version_that_is_well_stays_until_somebody_goes_back(installed: Installed) -> None:
    done = installed.run("upgrade", "--to", installed.make_later("well", MAKES_A_TABLE), "--watch", "3")
    assert done.stdout.startswith("installing "), "nobody waits for minutes without a word"
    assert done.returncode == 0 and "- Later." in done.stdout and "an agent answered" in done.stdout, done.stderr
    assert installed.get_version() == "99.0"
    assert "six" in installed.run("chat", "-m", "notes", "--wait").stdout
    back = installed.run("upgrade", "--rollback")
    assert back.returncode == 0 and "is back" in back.stdout, back.stderr
    assert installed.get_version() == gatepost.__version__
    assert "six" in installed.run("chat", "-m", "notes", "--wait").stdout
    again = installed.run("upgrade", "--rollback")
    assert again.returncode == 1 and "no upgrade to go back from" in again.stderr
