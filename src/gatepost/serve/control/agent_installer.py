"""The needs of an agent that this machine lacks: its library by pip, its program by npm. Each command is shown before
it is run, and a failure names the way out."""

import importlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from gatepost.core import npm_programs
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.messages.text import clean
from gatepost.serve.control.connectable_agents import has_library, has_program, list_requirements

Tell = Callable[[str], None]
LONGEST_S = 900  # for one installer
LONGEST_SAID = 300  # characters of what an installer said last
_installing = threading.Lock()  # two of them would write to one folder

# Variables of our environment that a package manager needs. Its packages are foreign code and get none of our keys.
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR")
_KEPT_BEGINNINGS = ("npm_config_", "pip_", "node_extra_ca_certs", "xdg_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "requests_ca_bundle", "curl_ca_bundle")


def install_agent(home: Home, chosen: ProviderSpec, tell: Tell) -> bool:
    """Install what it lacks, for somebody who sits at no terminal. False: nothing was missing. It blocks."""
    with _installing:
        lacks = not (has_library(chosen) and has_program(home, chosen))
        install_library(chosen, tell, allowed=True, shown=False)
        install_program(home, chosen, tell, allowed=True, shown=False)
    return lacks


def install_library(chosen: ProviderSpec, tell: Tell, *, allowed: bool, shown: bool = True) -> None:
    """Into the environment that this process, and so the gateway, runs in. `shown`: at a terminal, as it goes on."""
    if has_library(chosen):
        return
    wanted = list_requirements(chosen)
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *wanted]
    quoted = shlex.join(wanted) or f"'.[{chosen.name}]', in a checkout"
    by_hand = f"by hand: {sys.executable} -m pip install {quoted}"
    if not allowed or not wanted:
        raise SetupError(f"{chosen.name} needs {' '.join(wanted) or chosen.library}, which is not installed; {by_hand}")
    _run(command, tell, shown, f"pip could not install {' '.join(wanted)} (is an index reachable?); {by_hand}")
    importlib.invalidate_caches()
    if not has_library(chosen):
        raise SetupError(f"pip ran, and {chosen.library} is still not there; {by_hand}")


def install_program(home: Home, chosen: ProviderSpec, tell: Tell, *, allowed: bool, shown: bool = True) -> None:
    """Below the home. Sandboxes get the native executable alone, or a Node program with its package."""
    if has_program(home, chosen):
        return
    (name, *others), package, folder = chosen.programs, chosen.package, home.path / "programs"
    by_hand = f'install it, and name it in gatepost.toml: programs = ["{name}=/path/to/{name}"]'
    npm = shutil.which("npm")
    if npm is None or not allowed or not package:
        missing = "npm, which would fetch it, is not here either" if package else "npm does not have it"
        why = missing if npm is None or not package else "it was to be left alone"
        raise SetupError(f"the program {name} is not on this machine, and {why}; {by_hand}")
    if missing_others := [each for each in others if shutil.which(each) is None]:
        raise SetupError(f"{name} needs {', '.join(missing_others)}, which is not on this machine; install it first")
    home.prepare()
    folder.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
    # Without the packages' own scripts: the native executable is a plain file in them, and all that is taken.
    quiet = ["--ignore-scripts", "--no-fund", "--no-audit", "--silent"]
    command = [npm, "install", *quiet, "--prefix", str(folder), package]
    _run(command, tell, shown, f"npm could not install {package}; {by_hand}")
    modules = folder / "node_modules"
    found = npm_programs.find_native(modules, package, name) or npm_programs.find_script(modules, name)
    if found is None:
        raise SetupError(f"npm installed {package}, but it has no {name} for this machine; {by_hand}")
    _link(folder / name, found)


def _link(link: Path, target: Path) -> None:
    new = link.with_name(f".{link.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(link)


def clean_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return what a package manager gets: how to find things and its own settings, and nothing of ours."""
    return {
        name: value
        for name, value in given.items()
        if name in _KEPT or name.lower() in _PROXIES or name.lower().startswith(_KEPT_BEGINNINGS)
    }


def _run(command: list[str], tell: Tell, shown: bool, trouble: str) -> None:
    """Run an installer. Its output goes to stderr, because a program may read our own; or its end into the error.

    The umask lets sandboxes read the installed files: they are other users if we are root.
    """
    tell("running: " + " ".join(command))
    with tempfile.TemporaryFile() as said:
        place = sys.stderr.fileno() if shown else said.fileno()
        env = clean_environment(os.environ)
        try:
            code = subprocess.call(
                command, stdin=subprocess.DEVNULL, stdout=place, stderr=place, env=env, umask=0o022, timeout=LONGEST_S
            )
        except subprocess.TimeoutExpired:
            raise SetupError(f"{command[0]} was not done after {LONGEST_S} s; {trouble}") from None
        except OSError as error:
            raise SetupError(f"{command[0]} cannot be run: {error.strerror}; {trouble}") from None
        if code != 0:
            said.seek(max(0, said.seek(0, os.SEEK_END) - LONGEST_SAID))
            last = clean(said.read().decode(errors="replace")).strip()
            raise SetupError(f"{trouble}; it said: {last}" if last else trouble)
