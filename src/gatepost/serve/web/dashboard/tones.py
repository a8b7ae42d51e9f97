"""Which colour a state has, wherever it is shown. A word that is in no line is quiet."""

from gatepost.serve.web.dashboard.view import Tone

_WORDS = {
    Tone.GOOD: "up active answered sent delivered allowed allow live healthy done ready yes granted kept ok",
    Tone.WARN: "paused queued working held retry pending sending running initializing interrupted starting waiting"
    " quiet backing-off asks warning warn",
    Tone.BAD: "failed uncertain refused error denied deny deaf ended dead broken revoked no blocked critical fail",
}
TONES = {word: tone for tone, words in _WORDS.items() for word in words.split()}


def get_tone(state: str) -> Tone:
    return TONES.get(state, Tone.QUIET)
