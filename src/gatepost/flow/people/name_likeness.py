"""Names that look alike to people: by signs that nobody sees, wide or foreign letters, marks, or digits for letters.

The tables hold the letters of alphabets that a screen shows like Latin ones. Within a word, letters of another alphabet
beside Latin ones are a disguise in any case.
"""

import unicodedata

UNSEEN = frozenset({"Cf", "Cc", "Cn", "Co", "Cs", "Mn", "Me"})  # categories of signs that nobody sees, and of marks
_LATIN = "LATIN"
# Their words are written beside Latin letters without a space.
_UNLIKE = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR"})
_PAIRS = (
    ("авгдеёзикмнопрстухцьѕіїјһѡԁԛԝӏҽѵүҳ", "abrgee3nkmhonpctyxubsiijhwdqwleuyx"),  # Cyrillic
    ("αβγεζηικμνοπρτυχωϲϳ", "abyeznikuvonptuxwcj"),  # Greek, as in capitals where those are more alike
    ("ագեհյոռսուցօ", "wqehjnnunugo"),  # Armenian
    ("ıɑɡɩɪʏʙʜʟɴʀꜱᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢøłđħŧ", "iagiiybhlnrsacdejkmoptuvwzoldht"),  # Latin
    ("01ijl|!5", "olllllls"),
)
_ALIKE = {ord(sign): like for signs, likes in _PAIRS for sign, like in zip(signs, likes, strict=True)}


def make_plain(name: str) -> str:
    """Return the name as it looks at a glance. Two that look alike are equal."""
    if not name.isascii():
        parts = unicodedata.normalize("NFKD", name.casefold())
        name = "".join(sign for sign in parts if unicodedata.category(sign) not in UNSEEN)
    looks = name.casefold().translate(_ALIKE).translate(_ALIKE)  # a letter like i is like l, too
    return " ".join(looks.replace("rn", "m").replace("vv", "w").split())


def is_disguised(name: str) -> bool:
    """Return True if a word has letters of another alphabet beside Latin ones."""
    return not name.isascii() and any(_mixes(word) for word in unicodedata.normalize("NFKC", name).split())


def _mixes(word: str) -> bool:
    scripts = {unicodedata.name(sign, "").partition(" ")[0] for sign in word if sign.isalpha()}
    return _LATIN in scripts and bool(scripts - _UNLIKE - {_LATIN})
