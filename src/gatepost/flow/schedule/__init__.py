"""When tasks are due, in the zone of the gateway."""

from gatepost.core.settings import setting

TIMEZONE = setting("timezone", "UTC", help="The zone in which agents see times, such as Europe/Berlin.")
