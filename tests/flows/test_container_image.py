"""The gateway in its image, made and run by podman: its walls, a kill in the middle of work, beside a database, and as
a service of systemd.

The base is made by debootstrap and kept, as are the wheels. Images, containers and networks are in a folder of their
own, and are gone at the end.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gatepost
from gatepost_testing import programs
from gatepost_testing.waiting import PATIENCE_S, block_until

NEEDED = ("podman", "runc", "catatonit", "netavark", "iptables", "debootstrap")
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin:/usr/lib/podman"
MISSING = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.geteuid() != 0, reason="debootstrap makes a system, which needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

ROOT = Path(gatepost.__file__).parents[2]
CACHE = ROOT / ".cache" / "container"
SUITE = "bookworm"
COMPOSE = [ROOT / "ops" / "container" / name for name in ("compose.yaml", "compose.postgres.yaml")]
MOST_MB = 250
UNNEEDED = ("var/lib/apt/lists", "var/cache/apt", "usr/share/locale", "usr/share/man", "usr/share/doc")
CONF = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_config_dir = "{folder}/networks"
"""
OPEN_FILTER, OPEN_PROC = "--security-opt seccomp=unconfined", "--security-opt systempaths=unconfined"
LOOK = "id -u; uname -n; grep -h -e CapEff -e Seccomp: /proc/self/status; ls /sys; ls /data"
DATABASE = """\
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends postgresql
RUN install -d -o postgres /var/lib/postgresql/data
COPY start.sh /start.sh
USER postgres
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["sh", "/start.sh"]
"""
START_DATABASE = """\
set -eu
cd "$(echo /usr/lib/postgresql/*/bin)"
data=/var/lib/postgresql/data/rows
if [ ! -s $data/PG_VERSION ]; then
    echo "$POSTGRES_PASSWORD" > /tmp/password
    ./initdb -D $data -U "$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 $POSTGRES_INITDB_ARGS
    echo "host all all all scram-sha-256" >> $data/pg_hba.conf
    echo "CREATE DATABASE $POSTGRES_USER" | ./postgres --single -D $data postgres
fi
exec ./postgres -D $data -c listen_addresses='*'
"""
WITH_SYSTEMD = """\
FROM gatepost
USER root
RUN apt-get update && apt-get install -y --no-install-recommends systemd systemd-sysv dbus
STOPSIGNAL SIGRTMIN+3
HEALTHCHECK NONE
ENTRYPOINT []
CMD ["/sbin/init"]
"""


# An agent that is in the middle of a message until it is let go.
SCRIPT = json.dumps({"turns": [{"when": "^held", "do": [{"wait_for": "go"}, {"say": "echo: {text}"}]}]})
FOLDER = "/data/home/groups/home"
SAID = ["before", "held", "after"]


class Podman:
    def __init__(self, folder: Path) -> None:
        self.folder, self.program = folder, folder / "podman"
        (folder / "containers.conf").write_text(CONF.format(folder=folder))
        options = shlex.join(["--root", f"{folder}/root", "--runroot", f"{folder}/run"])
        self.program.write_text(
            f'#!/bin/sh\nexport CONTAINERS_CONF={folder}/containers.conf PATH={PATH}\nexec podman {options} "$@"\n'
        )
        self.program.chmod(0o755)
        self.rules = {table: list_rules(table) for table in ("nat", "filter")}

    def run(self, *words: str | Path, check: bool = True, patience: float = 900) -> "subprocess.CompletedProcess[str]":
        command = [str(self.program), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False, env=users_env())
        assert not check or done.returncode == 0, f"podman {' '.join(command[1:])}: {done.stdout}{done.stderr}"
        return done

    def build(self, name: str, context: Path, *words: str | Path) -> None:
        """With this machine's network, for apt. No registry is asked for a base."""
        self.run("build", "--format", "docker", "--pull=never", "--network", "host", "-t", name, *words, context)

    def build_from_text(self, name: str, text: str, **files: str) -> None:
        context = self.folder / name.replace(":", "-")
        context.mkdir()
        for file, content in {"Containerfile": text, **files}.items():
            (context / file.replace("_", ".")).write_text(content)
        self.build(name, context)

    def gatepost(self, container: str, *words: str, check: bool = True) -> str:
        return self.run("exec", container, "gatepost", *words, check=check).stdout

    def json(self, container: str, *words: str) -> Any:
        return json.loads(self.gatepost(container, *words, "--json", check=False))

    def wait_until_up(self, container: str, *words: str) -> None:
        """Where a container cannot see that a cgroup is empty, its systemd waits half a minute for what was killed."""
        command = ("exec", container, "gatepost", *words, "status")
        block_until(lambda: not self.run(*command, check=False).returncode, "the gateway", 2 * PATIENCE_S)

    def remove_all(self) -> None:
        self.run("rm", "--all", "--force", "--time", "0", check=False)
        self.run("system", "reset", "--force", check=False)
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if (point := line.split()[4]).startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", point], check=True)
        shutil.rmtree(self.folder)
        for table, before in self.rules.items():  # of its networks some stay for ever
            new = [rule for rule in list_rules(table) if rule not in before]
            for rule in sorted(new):  # what chains hold before the chains
                option, *words = shlex.split(rule)
                run("iptables", "-t", table, {"-A": "-D", "-N": "-X"}[option], *words)


def list_rules(table: str) -> list[str]:
    """The rules and chains that podman makes for networks."""
    listed = subprocess.run(
        ["iptables", "-t", table, "-S"], capture_output=True, text=True, check=False, env={"PATH": PATH}
    )
    return [line for line in listed.stdout.splitlines() if "NETAVARK" in line]


def users_env() -> dict[str, str]:
    """The tests' own certificate is none that an index of packages has."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GATEPOST_", "PYTHON"))}
    env.pop("SSL_CERT_FILE")
    env["PATH"] = PATH
    return env | ({"SSL_CERT_FILE": users} if (users := os.environ["USERS_CERT_FILE"]) else {})


def run(*words: str | Path) -> None:
    done = subprocess.run([str(each) for each in words], capture_output=True, text=True, check=False, env=users_env())
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def make_base() -> Path:
    """A small Debian as the published one is: without documentation and lists of packages."""
    kept = CACHE / f"{SUITE}.tar"
    if not kept.exists():
        system = CACHE / f"{SUITE}.{os.getpid()}"
        run("debootstrap", "--variant=minbase", SUITE, system)
        for each in UNNEEDED:
            shutil.rmtree(system / each)
            (system / each).mkdir()
        (system / "etc/dpkg/dpkg.cfg.d/slim").write_text(
            "".join(f"path-exclude /usr/share/{each}/*\n" for each in ("doc", "man", "locale"))
        )
        run("tar", "-C", system, "-cf", f"{kept}.new", ".")
        shutil.rmtree(system)
        os.replace(f"{kept}.new", kept)
    return kept


def fetch_wheels() -> Path:
    """What the image has, from the index that this machine is set up for."""
    locks = [ROOT / name for name in ("requirements.lock", "requirements-test.lock", "pyproject.toml")]
    kept = CACHE / f"wheels-{hashlib.sha256(b''.join(each.read_bytes() for each in locks)).hexdigest()[:12]}"
    if not kept.exists():
        new = kept.with_name(f"{kept.name}.{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", new]
        run(*pip, "--require-hashes", "--no-deps", "-r", locks[0])
        versions = CACHE / "versions"
        versions.write_text(
            "\n".join(re.findall(r"^[a-z][^ ]*==[^ ]*", locks[0].read_text() + locks[1].read_text(), re.M))
        )
        extras = tomllib.loads(locks[2].read_text())["project"]["optional-dependencies"]
        run(*pip, "-c", versions, *extras["backup"], *extras["postgres"])
        os.replace(new, kept)
    return kept


def show(figure: str) -> None:
    """For `pytest -s`: the pages have their figures from here."""
    print(f"figures: {figure}")  # noqa: T201


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """With the image in it. The folder's name is a short one: it is part of the paths of sockets."""
    CACHE.mkdir(parents=True, exist_ok=True)
    base, wheels = make_base(), fetch_wheels()
    made = Podman(tmp_path_factory.mktemp("p"))
    try:
        made.run("import", "--quiet", base, "localhost/debian:bookworm-slim")
        began = time.monotonic()
        build_gateway(made, wheels, "gatepost")
        show(f"the image is built in {time.monotonic() - began:.0f} s")
        yield made
    finally:
        made.remove_all()


def build_gateway(podman: Podman, wheels: Path, name: str, *words: str) -> None:
    offline = ["--build-arg", "PIP_NO_INDEX=1", "--build-arg", "PIP_FIND_LINKS=/wheels", "-v", f"{wheels}:/wheels:ro"]
    podman.build(name, ROOT, *offline, *words, "-f", ROOT / "ops" / "container" / "Containerfile")


def get_size_mb(podman: Podman, image: str) -> float:
    return int(podman.run("image", "inspect", "--format", "{{.Size}}", image).stdout) / 1e6


def read_documented_command() -> list[str]:
    """`podman run …` as the page shows it."""
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8").replace("\\\n", " ")
    return shlex.split(next(line for line in text.splitlines() if line.startswith("podman run ")))


def test_the_image_is_small_is_nobodys_and_says_what_it_runs(podman: Podman) -> None:
    size = get_size_mb(podman, "gatepost")
    show(f"the image has {size:.0f} MB")
    assert size <= MOST_MB
    (found,) = json.loads(podman.run("image", "inspect", "gatepost").stdout)
    config = found["Config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("1000:1000", ["gatepost"], ["up"])
    assert found["Healthcheck"]["Test"] == ["CMD", "gatepost", "status"]


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("", f"{OPEN_FILTER} {OPEN_PROC}"),
        (OPEN_FILTER, OPEN_PROC),
        (OPEN_PROC, OPEN_FILTER),
        (f"{OPEN_FILTER} {OPEN_PROC}", ""),
        (f"{OPEN_FILTER} {OPEN_PROC} --cap-add SYS_ADMIN", "without --cap-add"),
    ],
)
def test_the_doctor_names_the_flags_that_walls_still_need(podman: Podman, given: str, missing: str) -> None:
    asked = ("run", "--rm", "--no-healthcheck", "--network", "none", *given.split(), "gatepost", "doctor", "--json")
    said = json.loads(podman.run(*asked, check=False).stdout)["findings"]
    found = [each["text"] for each in said if each["subject"] == "sandbox" and each["text"].startswith("bubblewrap")]
    if missing:
        assert len(found) == 1 and "sysctl" not in found[0]
        assert found[0].endswith(missing if "--cap" in missing else f"start it by podman with {missing}"), found
    else:
        assert found == ["bubblewrap works"]


def test_a_gateway_in_a_container_has_walls_and_loses_nothing_when_it_is_killed(podman: Podman) -> None:
    command = read_documented_command()
    assert command[0] == "podman" and command[-1] == "gatepost"
    command[command.index("-p") + 1] = "127.0.0.1::8420"  # whichever is free
    began = time.monotonic()
    podman.run(*command[1:])
    podman.wait_until_up("gatepost")
    assert podman.gatepost("gatepost", "chat", "-m", "hello", "--wait")
    show(f"from `podman run` to an answered message {time.monotonic() - began:.1f} s")

    address = podman.run("port", "gatepost", "8420").stdout.strip()
    with urllib.request.urlopen(f"http://{address}/healthz", timeout=PATIENCE_S) as page:
        assert page.status == 200
    assert podman.run("healthcheck", "run", "gatepost").stdout.strip() == ""
    assert podman.run("exec", "gatepost", "id", "-u").stdout.strip() == "1000"
    assert podman.json("gatepost", "status")["sandbox"] == {"kind": "bubblewrap", "isolated": True, "trouble": None}
    seen = podman.run("exec", "gatepost", "gatepost", "sandbox", "run", "home", "--", "sh", "-c", LOOK, check=False)
    assert seen.stdout.split() == ["1000", "gatepost", "CapEff:", "0000000000000000", "Seccomp:", "2"], seen.stderr
    assert "'/data'" in seen.stderr and "'/sys'" in seen.stderr, "neither is there for an agent"

    begin_work(podman, "gatepost")
    podman.run("exec", "gatepost", "sh", "-c", f"kill -9 {podman.json('gatepost', 'status')['pid']}", check=False)
    block_until(lambda: podman.run("exec", "gatepost", "true", check=False).returncode == 0, "podman to start it again")
    end_work(podman, "gatepost")
    podman.run("rm", "--force", "--time", "20", "gatepost")
    podman.run(*command[1:])
    podman.wait_until_up("gatepost")
    assert podman.gatepost("gatepost", "chat", "-m", "here", "--wait").strip() == "echo: here"
    assert list_answers(podman, "gatepost") == sorted([*SAID, "here"]), "a new container has the same volume"
    assert "the container and its image" in podman.gatepost("gatepost", "uninstall")
    upgrade = podman.run("exec", "gatepost", "gatepost", "upgrade", "--to", "/tmp/x.whl", check=False)
    assert upgrade.returncode == 1 and "the new image on the same volume" in upgrade.stderr
    podman.run("rm", "--force", "--time", "20", "gatepost")


def begin_work(podman: Podman, container: str, *words: str) -> None:
    """Write to an agent that will not answer before it is let go."""
    podman.run("exec", "--user", "1000", container, "sh", "-c", f"echo '{SCRIPT}' > {FOLDER}/script.json")
    podman.gatepost(container, *words, "group", "set", "home", "provider=scripted")
    for text in SAID:
        podman.gatepost(container, *words, "chat", "-m", text)
    block_until(lambda: podman.json(container, *words, "status")["awake"], "the agent to begin")


def end_work(podman: Podman, container: str, *words: str) -> None:
    """Let the agent go, once the gateway is back. Everything is answered, and nothing twice."""
    podman.wait_until_up(container, *words)
    podman.run("exec", "--user", "1000", container, "touch", f"{FOLDER}/go")
    block_until(lambda: podman.json(container, *words, "ledger", "check")["in_flight"] == 0, "the end of all work")
    assert podman.json(container, *words, "ledger", "check")["unaccounted"] == 0
    assert list_answers(podman, container, *words) == sorted(SAID)


def list_answers(podman: Podman, container: str, *words: str) -> list[str]:
    """What the scripted agent has answered, and what came of it."""
    rows = podman.json(container, *words, "ledger", "list")
    assert {row["state"] for row in rows} == {"answered", "sent"}
    said = [row["text"].partition("echo: ") for row in rows if row["direction"] == "out"]
    return sorted(text for _, mark, text in said if mark)


def test_a_gateway_beside_postgresql_is_composed_as_the_files_say(podman: Podman) -> None:
    program = programs.find("compose/bin/podman-compose")
    if program is None:
        pytest.skip("podman-compose is not installed: make test-all does it")
    podman.build_from_text("postgres:17", DATABASE, start_sh=START_DATABASE)
    build_gateway(podman, fetch_wheels(), "gatepost:postgres", "--build-arg", "EXTRAS=backup,postgres")
    size = get_size_mb(podman, "gatepost:postgres")
    show(f"the image with PostgreSQL's library has {size:.0f} MB")
    assert size <= MOST_MB
    free = podman.folder / "port.yaml"  # whichever is free
    free.write_text("services:\n  gatepost:\n    ports: !override\n      - 127.0.0.1::8420\n")
    files = [word for each in (*COMPOSE, free) for word in ("-f", str(each))]
    compose = [str(program), "--podman-path", str(podman.program), "-p", "gp", *files]
    env = {**users_env(), "GATEPOST_DB_PASSWORD": "secret", "PATH": PATH}
    began = time.monotonic()
    up = subprocess.run([*compose, "up", "-d", "--no-build"], env=env, capture_output=True, text=True, check=False)
    assert up.returncode == 0, up.stdout + up.stderr
    podman.wait_until_up("gp_gatepost_1")
    assert podman.gatepost("gp_gatepost_1", "chat", "-m", "hello", "--wait")
    show(f"from `podman-compose up` to an answered message {time.monotonic() - began:.1f} s")

    status = podman.json("gp_gatepost_1", "status")
    assert status["sandbox"] == {"kind": "bubblewrap", "isolated": True, "trouble": None} and status["gateway"]
    assert podman.run("healthcheck", "run", "gp_gatepost_1").stdout.strip() == ""
    begin_work(podman, "gp_gatepost_1")
    podman.run("exec", "gp_gatepost_1", "sh", "-c", f"kill -9 {status['pid']}", check=False)
    block_until(lambda: not podman.run("exec", "gp_gatepost_1", "true", check=False).returncode, "its new start")
    end_work(podman, "gp_gatepost_1")
    down = subprocess.run([*compose, "down", "--volumes"], env=env, capture_output=True, text=True, check=False)
    assert down.returncode == 0, down.stdout + down.stderr


def test_systemd_starts_the_gateway_again_after_a_kill_and_with_the_machine(podman: Podman) -> None:
    """In a container that runs systemd, with the unit that `gatepost service install` writes."""
    podman.build_from_text("with-systemd", WITH_SYSTEMD)
    flags = f"--systemd=always --network none --no-healthcheck {OPEN_FILTER} {OPEN_PROC}".split()
    podman.run("run", "-d", "--name", "machine", *flags, "with-systemd")
    home = ("--home", "/data/home")

    def systemctl(*words: str) -> str:
        return podman.run("exec", "machine", "systemctl", *words, check=False).stdout.strip()

    block_until(lambda: systemctl("is-system-running") in ("running", "degraded"), "systemd")
    began = time.monotonic()
    podman.gatepost("machine", *home, "service", "install", "--system", "--as", "gatepost")
    assert podman.gatepost("machine", *home, "chat", "-m", "hello", "--wait")
    show(f"from `service install` to an answered message {time.monotonic() - began:.1f} s")
    status = podman.json("machine", *home, "status")
    assert status["sandbox"]["isolated"] and systemctl("show", "-P", "User", "gatepost") == "gatepost"

    begin_work(podman, "machine", *home)
    podman.run("exec", "machine", "sh", "-c", f"kill -9 {status['pid']}")
    end_work(podman, "machine", *home)
    assert systemctl("show", "-P", "NRestarts", "gatepost") == "1"
    podman.run("restart", "--time", "30", "machine")  # as good as a reboot
    podman.wait_until_up("machine", *home)
    assert podman.gatepost("machine", *home, "chat", "-m", "here", "--wait").strip() == "echo: here"
    assert list_answers(podman, "machine", *home) == sorted([*SAID, "here"])

    found = podman.json("machine", *home, "uninstall")
    assert [each["place"] for each in found if not each["by_hand"]] == ["/etc/systemd/system/gatepost.service"]
    podman.gatepost("machine", *home, "uninstall", "--yes")
    assert systemctl("is-active", "gatepost") == "inactive" and "service" not in podman.gatepost("machine", "uninstall")
    assert podman.run("exec", "machine", "test", "-s", "/data/home/gatepost.db", check=False).returncode == 0
    podman.run("rm", "--force", "--time", "10", "machine")
