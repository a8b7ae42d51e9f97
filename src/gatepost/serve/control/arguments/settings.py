"""Settings: what the running gateway uses."""

from gatepost.serve.control.declaration import OperationArgs, declares


@declares("settings.in_use", right="status.read", offline=False)
class SettingsInUseArgs(OperationArgs, frozen=True):
    """List the settings that the running gateway uses, which it read when it started."""
