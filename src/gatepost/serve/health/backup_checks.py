"""The check of backups: a person who has lost a disk needs one that can be put back."""

from collections.abc import Iterator

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.backups.backup_folder import (
    EVERY_HOURS,
    check_backup_settings,
    count_days_unproven,
    find_folder,
    list_backups,
)
from gatepost.serve.health.findings import Finding, Mend

OLD_DAYS = 7
BACK_UP = Mend("backup.create", "Make one now")


def check_backups(home: Home, config: Config, now: int) -> Iterator[Finding]:
    try:
        check_backup_settings(home, config)
    except SetupError as error:
        yield Finding("fail", "backups", f"the next one fails: {error}", "`gatepost settings set` mends it")
        return
    folder, often = find_folder(home, config), config[EVERY_HOURS]
    found, cure = list_backups(folder), "`gatepost backup create --prove` makes one and tries it out"
    days = count_days_unproven(found, now)
    if found and (proof := found[0].proof) is not None and proof.trouble:
        yield Finding("fail", "backups", f"{found[0].name} cannot be put back: {proof.trouble}", cure, BACK_UP)
    elif days is None:
        hoped = found or often > 0
        yield Finding("warn" if hoped else "note", "backups", "none in the folder of backups was proven", cure, BACK_UP)
    elif days >= OLD_DAYS:
        yield Finding("warn", "backups", f"the last one that was proven is {days} days old", cure, BACK_UP)
    else:
        yield Finding("ok", "backups", f"the last one that was proven is {days} days old")
