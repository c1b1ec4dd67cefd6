"""Typing mistakes: neighbours transposed, letters dropped, doubled or hit beside the key."""

from __future__ import annotations

import random
import re

from jrh_mlflow.perturb._base import CodeTest, NotApplicable, Target
from jrh_mlflow.perturb.checks import differs, keeps_names, keeps_numbers
from jrh_mlflow.perturb.english import NUMBER_WORDS, Edit, apply, touches, untouchable

_CHUNK = re.compile(r"\S+")
_OPENING, _CLOSING = "\"'“‘(*_[", "\"'”’)*_].,;:!?…"
_SHORTEST = 4
_MEANING = frozenset(NUMBER_WORDS) | {
    "never", "none", "nobody", "nothing", "neither", "cannot", "without", "unless",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty", "forty",
    "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand", "million", "billion",
}  # fmt: skip
"""A slip in one of these could change what is said."""
_NEIGHBOURS = {
    "q": "wa", "w": "qes", "e": "wrd", "r": "etf", "t": "ryg", "y": "tuh", "u": "yij", "i": "uok", "o": "ipl",
    "p": "ol", "a": "qsz", "s": "adwx", "d": "sfec", "f": "dgrv", "g": "fhtb", "h": "gjyn", "j": "hkum",
    "k": "jli", "l": "ko", "z": "xa", "x": "zcs", "c": "xvd", "v": "cbf", "b": "vng", "n": "bmh", "m": "nj",
}  # fmt: skip


class Typos(CodeTest):
    """Typos in 5 to 8 % of the words of four letters or more; numbers, names, links and code are spared."""

    name = "typos"
    title = "a few realistic typing mistakes"
    changes = "spelling and typing errors"
    group = "extra"
    checks = (differs, keeps_numbers, keeps_names)

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the text with seeded typos, at least one."""
        text = target.original
        found = _slips(text, rng)
        if not found:
            raise NotApplicable("there is no plain word of four small letters or more")
        count = max(1, round(rng.uniform(0.05, 0.08) * len(found)))
        return apply(text, rng.sample(found, count))


def _slips(text: str, rng: random.Random) -> list[Edit]:
    """Return one possible slip for every word that may have one."""
    mask = untouchable(text)
    found = []
    for match in _CHUNK.finditer(text):
        word = match.group().lstrip(_OPENING)
        start = match.end() - len(word)
        word = word.rstrip(_CLOSING)
        if not touches(mask, (start, start + len(word))) and _plain(word):
            slips = _spellings(word, rng.randrange(1, len(word) - 1))
            if slips:
                found.append((start, start + len(word), rng.choice(slips)))
    return found


def _plain(word: str) -> bool:
    return len(word) >= _SHORTEST and word.isalpha() and all(map(str.islower, word)) and word not in _MEANING


def _spellings(word: str, place: int) -> list[str]:
    """Return the misspellings of a word at an inner letter. The first letter stays, as it does in most real slips.

    Example:
        >>> _spellings("word", 2)
        ['wodr', 'wod', 'worrd', 'woed', 'wotd', 'wofd']
    """
    head, letter, follower, tail = word[:place], word[place], word[place + 1], word[place + 2 :]
    swapped, dropped = head + follower + letter + tail, head + follower + tail
    beside = [head + key + follower + tail for key in _NEIGHBOURS.get(letter, "")]
    doubled = head + letter + letter + follower + tail
    return [slip for slip in (swapped, dropped, doubled, *beside) if slip != word and slip not in _MEANING]
