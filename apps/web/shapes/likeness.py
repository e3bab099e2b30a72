"""Which names a reader takes for one another: by capitals, by width, by letters of another script. Pure.

Source of what looks like what: Unicode Technical Standard 39, confusables.txt, as far as it concerns letters
of Cyrillic, Greek and Armenian, and the odd ones of Latin, that look like plain Latin letters.
"""

import unicodedata

SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "COPTIC", "ARMENIAN", "CHEROKEE")
"""Scripts that share looks. Others may stand beside them: nobody takes a Han character for an a."""

_LOOKS = {
    "A": "АΑ", "B": "ВΒ", "C": "СϹ", "E": "ЕΕ", "H": "НΗ", "I": "ІΙӀ", "J": "ЈͿ", "K": "КΚ", "M": "МΜ",
    "N": "Ν", "O": "ОΟՕ", "P": "РΡ", "S": "ЅՏ", "T": "ТΤ", "X": "ХΧ", "Y": "УΥҮ", "Z": "Ζ",
    "a": "аαɑ", "b": "ь", "c": "сϲ", "d": "ԁ", "e": "еҽ", "f": "ք", "g": "ɡԍց", "h": "һհ", "i": "іɩıι",
    "j": "јϳյ", "k": "кκĸ", "l": "ӏⅼ", "m": "м", "n": "ոռпη", "o": "оοօσ", "p": "рρ", "q": "ԛզ", "r": "г",
    "s": "ѕ", "t": "тτ", "u": "υս", "v": "νѵ", "w": "ԝωաш", "x": "хχ", "y": "уүγ",
}  # fmt: skip
_PLAIN = {ord(letter): plain for plain, letters in _LOOKS.items() for letter in letters}


def folded(text: str) -> str:
    """The text without what capitals and widths tell apart."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def skeleton(text: str) -> str:
    """The same for two texts that look alike; a capital may look like another letter than its small one."""
    return folded(unicodedata.normalize("NFKC", text).translate(_PLAIN)).translate(_PLAIN)


def is_like(one: str, other: str) -> bool:
    """Whether a reader may take one for the other."""
    return folded(one) == folded(other) or skeleton(one) == skeleton(other)


def mixed_scripts(text: str) -> list[str]:
    """The scripts that share looks and stand side by side in the text, such as Latin and Cyrillic; empty
    where it keeps to one.
    """
    used = {unicodedata.name(letter, "").partition(" ")[0] for letter in folded(text) if letter.isalpha()}
    mixed = [script.capitalize() for script in SCRIPTS if script in used]
    return mixed if len(mixed) > 1 else []
