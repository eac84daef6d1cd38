"""Names from user data, made safe to show: one line, of limited length, in reading order."""

from __future__ import annotations

import unicodedata
from typing import Any

LONGEST = 48

# Characters that change the direction of text or are invisible: with them, a name could look like another.
DECEPTIVE = frozenset("\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def shown(name: Any, longest: int = LONGEST) -> str:
    """Return a name as one line of text, invisible characters escaped and the middle of a long name left out.

    Examples
    --------
    >>> shown("a\\nb"), shown(""), shown(7.0)
    ('a\\\\nb', '(empty)', '7.0')
    >>> shown("0123456789" * 1000, longest=12)
    '0123456…6789'
    """
    text = str(name)
    if len(text) > longest:
        tail = longest * 2 // 5
        text = f"{text[: longest - 1 - tail]}…{text[-tail:]}"
    text = "".join(spelt(character) for character in text)
    return text if text.strip() else "(empty)" if not text else "(blank)"


def spelt(character: str) -> str:
    """Return a character, or its escape sequence if it is a control character, a surrogate or deceptive."""
    if unicodedata.category(character) in ("Cc", "Cs") or character in DECEPTIVE:
        return character.encode("unicode_escape", "surrogatepass").decode("ascii")
    return character
