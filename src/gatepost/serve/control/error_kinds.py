"""The kinds of errors of the control API, for the API and its clients. It imports the standard library alone."""

from enum import StrEnum


class ApiErrorKind(StrEnum):
    ERROR = "error"
    INTERNAL = "internal"
    INVALID = "invalid"
    NOT_FOUND = "not_found"
    REFUSED = "refused"
    SETUP = "setup"
    TOO_LARGE = "too_large"
    UNAUTHORIZED = "unauthorized"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
