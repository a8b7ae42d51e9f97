"""Makes `.venv` with the `gatepost` command in it, from nothing but a Python. `make setup` runs it.

    python3 scripts/bootstrap.py          what the gateway needs
    python3 scripts/bootstrap.py test     and what its tests need

Standard library only, and old syntax only: an old Python must get far enough to say what is wrong. Packages come from
whatever index this machine is set up for, checked by the hashes in the locks. Once done, it is quick to be asked again.
"""

import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.environ.get("GATEPOST_VENV") or os.path.join(ROOT, ".venv")
OLDEST = (3, 11)
NEWER = ("python3.13", "python3.12", "python3.11", "python3.14", "python3")
WHEELS = "/usr/share/python-wheels/pip-*.whl"
OURS = ("", "testing")  # the folders of our distributions
LOCKS = {"run": ("requirements.lock",), "test": ("requirements.lock", "requirements-test.lock")}
LOCKS["site"] = LOCKS["run"] + ("requirements-site.lock",)
LOCKS["all"] = LOCKS["test"] + ("requirements-platforms.lock", "requirements-site.lock")


class Stuck(Exception):
    """Nothing more can be done here; its text is the one line that names the fix."""


def main(argv):
    purpose = argv[1] if len(argv) > 1 else "run"
    try:
        if sys.version_info < OLDEST:
            return go_on_with_a_newer_python(argv)
        if purpose not in LOCKS:
            raise Stuck("bootstrap.py knows %s, not %r" % (" and ".join(sorted(LOCKS)), purpose))
        set_up(purpose)
    except Stuck as error:
        sys.stderr.write("setup: %s\n" % error)
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("setup: stopped before it was done; the same command goes on\n")
        return 130
    return 0


def go_on_with_a_newer_python(argv):
    for name in NEWER:
        path = shutil.which(name)
        if path and is_new_enough(path):
            return subprocess.call([path] + argv)
    raise Stuck(
        "Python %d.%d or newer is needed, %s is %d.%d; install one (apt-get install python3.11, brew install python)"
        " or name it: make PYTHON=/path/to/python3" % (OLDEST + (sys.executable,) + tuple(sys.version_info[:2]))
    )


def is_new_enough(python):
    check = "import sys; sys.exit(sys.version_info < %r)" % (OLDEST,)
    return subprocess.call([python, "-c", check], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


# The environment.


def set_up(purpose):
    wanted, done = stamp_for(purpose), read_stamp()
    here = done.get("place", VENV) == VENV  # a checkout that was moved has scripts that name the old place
    if here and done.get(purpose) == wanted and os.path.exists(venv_python()):
        return
    if not (here and works(venv_python())):
        say("making %s with %s" % (VENV, sys.executable))
        make_venv()
        done = {}
    say("installing what is locked in %s (about a minute)" % " and ".join(LOCKS[purpose]))
    locks = [part for lock in LOCKS[purpose] for part in ("-r", os.path.join(ROOT, lock))]
    # What is locked is all there is. An older pip that looks for the rest may find the newest of it, which has no hash.
    pip("install", "--require-hashes", "--no-deps", *locks)
    # hatchling, which builds us, is locked as well: nothing is fetched that has no hash.
    ours = [part for folder in OURS for part in ("--editable", os.path.join(ROOT, folder))]
    pip("install", "--no-deps", "--no-build-isolation", *ours)
    done.update({"place": VENV, "run": stamp_for("run"), purpose: wanted})
    write_stamp(done)


def stamp_for(purpose):
    digest = hashlib.sha256()
    projects = tuple(os.path.join(folder, "pyproject.toml") for folder in OURS)
    for name in projects + LOCKS[purpose]:
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def stamp_path():
    return os.path.join(VENV, "gatepost-setup.json")


def read_stamp():
    try:
        with open(stamp_path(), encoding="utf-8") as file:
            stamp = json.load(file)
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(stamp):
    with open(stamp_path() + ".new", "w", encoding="utf-8") as file:
        json.dump(stamp, file)
    os.replace(stamp_path() + ".new", stamp_path())


def venv_python():
    return os.path.join(VENV, "bin", "python")


def works(python):
    return os.path.exists(python) and is_new_enough(python) and has_pip(python)


def has_pip(python):
    return (
        subprocess.call([python, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    )


def make_venv():
    """With ensurepip if there is one, else empty and with the first pip that can be found."""
    if subprocess.call([sys.executable, "-c", "import ensurepip; ensurepip.version()"], stderr=subprocess.DEVNULL) == 0:
        run([sys.executable, "-m", "venv", "--clear", VENV], "the environment cannot be made")
        return
    run([sys.executable, "-m", "venv", "--clear", "--without-pip", VENV], "the environment cannot be made")
    for give_pip in (pip_of_this_python, pip_wheel_on_disk, pip_wheel_from_index, pip_wheel_from_apt):
        if give_pip() and has_pip(venv_python()):
            return
    raise Stuck("this Python has neither ensurepip nor pip; install them (apt-get install python3-venv) and run again")


# Where pip may come from, when there is no ensurepip.


def pip_of_this_python():
    if not has_pip(sys.executable):
        return False
    return quietly([sys.executable, "-m", "pip", "--python", venv_python(), "install", "--quiet", "pip"])


def pip_wheel_on_disk():
    """Distributions that cut ensurepip out of Python keep its wheels in a folder of their own."""
    return any(install_wheel(wheel) for wheel in sorted(glob.glob(WHEELS), reverse=True))


def pip_wheel_from_index():
    """From the index that this machine is set up for. There is no default: that would be for pip to know."""
    import re
    import urllib.error
    import urllib.parse
    import urllib.request

    for index in configured_indexes():
        page = index.rstrip("/") + "/pip/"
        try:
            with urllib.request.urlopen(page, timeout=30) as answer:
                links = re.findall(r'href="([^"#]*/pip-[0-9.]+-py3-none-any\.whl)', answer.read().decode())
            if not links:
                continue
            newest = max(links, key=lambda link: [int(n) for n in re.findall(r"\d+", link.rsplit("/pip-")[-1])[:3]])
            with tempfile.TemporaryDirectory() as folder:
                wheel = os.path.join(folder, newest.rsplit("/", 1)[-1])
                with urllib.request.urlopen(urllib.parse.urljoin(page, newest), timeout=60) as answer:
                    with open(wheel, "wb") as file:
                        shutil.copyfileobj(answer, file)
                if install_wheel(wheel):
                    return True
        except (urllib.error.URLError, OSError, ValueError):
            continue
    return False


def configured_indexes():
    """What pip would read, if it were here."""
    import configparser

    found = [os.environ.get("PIP_INDEX_URL", ""), os.environ.get("PIP_EXTRA_INDEX_URL", "")]
    home = os.path.expanduser("~")
    for path in (
        os.environ.get("PIP_CONFIG_FILE", ""),
        os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "pip", "pip.conf"),
        os.path.join(home, ".pip", "pip.conf"),
        "/etc/xdg/pip/pip.conf",
        "/etc/pip.conf",
    ):
        config = configparser.RawConfigParser()
        try:
            config.read(path or os.devnull, encoding="utf-8")
        except configparser.Error:
            continue
        found += [config.get("global", key, fallback="") for key in ("index-url", "extra-index-url")]
    return [index for text in found for index in text.split()]


def pip_wheel_from_apt():
    """Debian's own package of the wheel, unpacked beside us: needs neither root nor a change of the system."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return False
    with tempfile.TemporaryDirectory() as folder:
        for part in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(folder, part))
        own = ["-qq", "-o", "Dir::State::lists=%s/lists" % folder, "-o", "Dir::Cache=%s/cache" % folder]
        if os.geteuid() == 0:
            own += ["-o", "APT::Sandbox::User=root"]
        if not quietly(["apt-get", "update"] + own):
            return False
        if not quietly(["apt-get", "download", "python3-pip-whl"] + own, cwd=folder):
            return False
        package = glob.glob(os.path.join(folder, "*.deb"))
        if not package or not quietly(["dpkg-deb", "-x", package[0], os.path.join(folder, "unpacked")]):
            return False
        wheels = glob.glob(os.path.join(folder, "unpacked", "usr", "share", "python-wheels", "pip-*.whl"))
        return any(install_wheel(wheel) for wheel in wheels)


def install_wheel(wheel):
    """A wheel of pip can be run as it is, and so install itself."""
    return quietly([venv_python(), os.path.join(wheel, "pip"), "install", "--quiet", "--no-index", wheel])


# Running things.


def pip(*args):
    command = [venv_python(), "-m", "pip", "--disable-pip-version-check", "-qq"]
    run(command + list(args), "pip could not install; its last lines say why. Is an index reachable?")


def run(command, trouble):
    if subprocess.call(command) != 0:
        raise Stuck("%s (%s)" % (trouble, " ".join(command[:4])))


def quietly(command, cwd=None):
    try:
        return subprocess.call(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def say(text):
    sys.stdout.write("setup: %s\n" % text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
