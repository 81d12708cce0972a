"""Number rules for hard negatives (xSIM++): quantities, dates and times, percentages.

In every rule `s` is the sentence and k the place of a token: `s.tokens[k]` is the token as written,
`s.low[k]` in lower case, `s.before(k)` the one before it in lower case; outside of the text both
are "". An edit is {place: new token}; "" removes a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

from .clauses import DETERMINERS
from .sentence import Sentence, cased
from .word_lists import MONTHS, WEEKDAYS, word_set, words

Edits = dict[int, str]

_CARDINALS = words("cardinals")
_TEENS = words("teens")
_TENS = words("tens")
_SCALES = words("number_scales")
_ORDINALS = words("ordinals")
_MULTIPLES = words("multiples")
_TIMES = {"twice": ("three times", "four times"), "once": ("twice", "three times")}
_WORDS = frozenset([*_CARDINALS, *_TEENS, *_TENS, *_SCALES, *_MULTIPLES, *_ORDINALS])
_WORDS |= word_set("other_number_words")
_ALL_OF = word_set("all_of")
_WHICH_UNIT = word_set("which_unit")
# before these words, "once" is a conjunction and not a number
_AFTER_CONJUNCTION = word_set("after_conjunction")
_FRACTIONS = {
    "half": ("a third", "a quarter"),
    "double": ("triple",),
    "triple": ("double",),
    "dozen": ("hundred",),
}
_PARTS = frozenset(["half", "third", "quarter", *_ORDINALS])
_UNITS = words("time_units")
_UNIT_PLURALS = words("time_unit_plurals")
_PERIODS = {
    "daily": "weekly",
    "weekly": "monthly",
    "monthly": "yearly",
    "annual": "monthly",
    "annually": "monthly",
}
_DAYS = {
    "yesterday": ("last week", "last month"),
    "tomorrow": ("next week", "next month"),
    "today": ("this week", "this month"),
}
# part of a range, a score, a path or a formula
_GLUE = frozenset({"-", "–", "/", ".", "_", "=", "+", "#", "[", "\\"})
_GLUE_BEHIND = frozenset({"–", "/", "_", "=", "+", "]", "\\"})
_YEAR_BEFORE = word_set("year_before") | {month.lower() for month in MONTHS}
# months that are also words, names or short forms; and what stands before a month
_ALSO_NAMES = word_set("months_also_names")
_BEFORE_MONTH = word_set("before_month")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*$")
_ORDINAL = re.compile(r"(\d+)(st|nd|rd|th)$")


def percentage(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits of percentages: 15% -> 22%, "ten percent" -> "seven percent"."""
    for k, low in enumerate(s.low[: len(s)]):
        # The number of "15 %"; the second one of "10-15 %" belongs to a range.
        if low == "%" or s.before(k) == "-" or not _is_percent(s, k + 1):
            continue
        if _NUMBER.match(low):
            for new in _other_numbers(low, rng, top=100):
                yield {k: new}
        elif low in _CARDINALS or low in _TENS or low in _TEENS:
            yield {k: cased(_other(low, _CARDINALS + _TENS, rng), s.tokens[k])}


def _is_percent(s: Sentence, k: int) -> bool:
    """Whether "%", "percent" or "per cent" stands at k."""
    if s.low[k] == "per":
        return s.low[k + 1] == "cent"
    return s.low[k] in ("%", "percent", "percentage")


def number(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits of quantities: digits keep their format (1,250 -> 1,730),
    words stay words (three -> seven)."""
    for k, low in enumerate(s.low[: len(s)]):
        if _NUMBER.match(low):
            if _is_quantity(s, k):
                for new in _other_numbers(low, rng):
                    yield {k: new}
        elif low in _WORDS:
            new_word = _other_number_word(s, k, low, rng)
            if new_word:
                yield {k: cased(new_word, s.tokens[k])}


def _is_quantity(s: Sentence, k: int) -> bool:
    """Whether digits are neither a percentage or date nor a part of a range, a score or a path."""
    if _is_percent(s, k + 1) or _is_year(s, k) or _is_day_of_month(s, k) or _is_time(s, k):
        return False
    if s.low[k] in ("1", "0") or s.before(k) in _GLUE:
        return False
    behind = s.low[k + 1]
    # "2-3", "1/2"
    continues = behind in _GLUE_BEHIND or (behind == "-" and s.low[k + 2][:1].isdigit())
    return not continues


def _other_number_word(s: Sentence, k: int, low: str, rng: Random) -> str | None:
    """Another number in words: "three", "twice", "half of", "all the";
    None if it counts nothing here."""
    before = s.before(k)
    behind = s.low[k + 1]
    if (before == "-" and low not in _SCALES) or _is_percent(s, k + 1) or _is_fraction(s, k):
        return None
    # A word of a group, such as a cardinal, is replaced by another of the group.
    group = _number_words_like(low, before, behind)
    if group:
        return _other(low, group, rng)
    # Other words only where their neighbours show that they count something.
    if low in _TIMES and k not in s.starts:
        # "he came once", but not "once he came" or "at once"
        if behind not in _AFTER_CONJUNCTION and before not in ("at", "all", ",", ""):
            return rng.choice(_TIMES[low])
    elif low in _FRACTIONS and behind in ("of", "the", "a", "an"):
        # "half of it", but not "the first half of it"
        if before not in ("a", "the", "one", "first", "second"):
            return rng.choice(_FRACTIONS[low])
    elif low == "all" and behind in _ALL_OF:
        # "all the men", but not "after all the" or "all the time"
        if before not in ("at", "after", "above", "of", "not", "in") and s.low[k + 2] != "time":
            return "some" if behind == "of" else "some of"
    return None


def _number_words_like(low: str, before: str, behind: str) -> list[str] | None:
    """The words that can stand in the place of this one."""
    if low in _CARDINALS or low in _TEENS:
        if behind in _SCALES:  # "three hundred"
            return _CARDINALS[:8]
        return _CARDINALS[:9] if low in _CARDINALS else _TEENS
    if low in _TENS:
        return _TENS
    if low in _SCALES:
        return _SCALES[:4]
    if low in _MULTIPLES and behind == "of":
        return _MULTIPLES
    # "the third door", but not "a third of it"
    if low in _ORDINALS and before in DETERMINERS:
        if before not in ("a", "an") and behind not in ("of", ".", ","):
            return _ORDINALS[:6]
    # "his first book", but not "the first lady" or "the first time"
    if low == "first" and before in ("the", "his", "her", "their", "its", "our"):
        if behind not in ("lady", "time"):
            return ["second", "third", "fourth"]
    return None


def _is_fraction(s: Sentence, k: int) -> bool:
    """Whether the token belongs to a fraction ("two-thirds"),
    where another numerator may exceed one."""
    return s.low[k + 1] == "-" and s.low[k + 2].rstrip("s") in _PARTS


def date(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits of years, months, weekdays, days, times of day and units of time."""
    for k, low in enumerate(s.low[: len(s)]):
        token = s.tokens[k]
        if low[:1].isdigit():
            new = _other_date_number(s, k, low, rng)
        elif token in MONTHS and _is_month(s, k):
            is_full_name = len(token) > 3 or token == "May"
            new = _other(token, MONTHS[:12] if is_full_name else MONTHS[12:], rng)
        elif token in WEEKDAYS:
            new = _other(token, WEEKDAYS, rng)
        elif token.endswith("days") and token[:-1] in WEEKDAYS:
            new = _other(token[:-1], WEEKDAYS, rng) + "s"
        else:
            new = _other_time_word(s, k, low, rng)
        if new:
            yield {k: cased(new, token)}


def _other_date_number(s: Sentence, k: int, low: str, rng: Random) -> str | None:
    """Another year, decade, day, time or ordinal in digits; None for other numbers."""
    if _is_year(s, k):
        # A year near it, and not far in the future.
        year = int(low)
        latest = year + 60
        if year > 1900:
            latest = min(2029, year + 30)
        return str(_shifted(year, year - 30, latest, rng))
    if re.fullmatch(r"\d{3}0s", low):  # 1990s
        decades = [low[:2] + digit for digit in "123456789"]
        return _other(low[:-2], decades, rng) + "0s"
    if _is_day_of_month(s, k):
        return str(_shifted(int(low), 1, 28, rng))
    if _is_time(s, k):
        return _other_time(low, rng)
    ordinal = _ORDINAL.match(low)
    if ordinal and (s.low[k + 1] in ("century", "of", "-") or s.before(k).title() in MONTHS):
        return _as_ordinal(_shifted(int(ordinal[1]), 2, 20, rng))
    return None


def _other_time(low: str, rng: Random) -> str | None:
    """Another hour: 10:30 -> 7:30, 9 (am) -> 4; the minutes stay."""
    if ":" in low:
        hour, _, minutes = low.partition(":")
        last_hour = 12 if int(hour) <= 12 else 23
        return f"{_shifted(int(hour), 1, last_hour, rng)}:{minutes}"
    return str(_shifted(int(low), 1, 12, rng)) if low.isdecimal() else None


def _as_ordinal(value: int) -> str:
    """1st, 2nd, 3rd, 4th, and 11th to 19th."""
    ending = "th"
    if value // 10 != 1:
        ending = {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{value}{ending}"


def _other_time_word(s: Sentence, k: int, low: str, rng: Random) -> str | None:
    """Another day, unit or period: "yesterday", "three days", "last week", "weekly"; None if it is
    none here."""
    before = s.before(k)
    behind = s.low[k + 1]
    if s.in_compound(k):
        return None
    if low in _DAYS and behind != "'s":
        return rng.choice(_DAYS[low])
    # "three days", but not "three days old"
    is_number = before[:1].isdigit() or before in _CARDINALS or before in _TENS
    is_counted = is_number or before in ("few", "several")
    if low in _UNIT_PLURALS and is_counted:
        return None if behind == "old" else _other(low, _near(_UNIT_PLURALS, low), rng)
    # "last week", but not "a second" in line
    if low in _UNITS and before in _WHICH_UNIT:
        if low == "second" or (before == "a" and behind not in ("ago", "later", ".")):
            return None
        return _other(low, [unit for unit in _near(_UNITS, low) if unit != "second"], rng)
    return _PERIODS.get(low)


def _near(units: list[str], unit: str) -> list[str]:
    """The units of a list in the order of their length that are at most two places away."""
    place = units.index(unit)
    return units[max(0, place - 2) : place + 3]


def _is_month(s: Sentence, k: int) -> bool:
    """Whether the name of a month is one here: "in May", "3 March", but not "May I"."""
    if s.tokens[k] not in _ALSO_NAMES:
        return True
    before = s.before(k)
    behind = s.low[k + 1]
    return before in _BEFORE_MONTH or behind[:1].isdigit() or before[:1].isdigit()


def _is_year(s: Sentence, k: int) -> bool:
    """Whether the token is a year from 1000 to 2060: "in 1969", "May 1969", at the start of a text;
    not "1500 soldiers"."""
    low = s.low[k]
    if not (low.isdecimal() and len(low) == 4 and 1000 <= int(low) <= 2060):
        return False
    starts_or_dated = s.before(k) == "" or s.before(k) in _YEAR_BEFORE
    return starts_or_dated and not s.low[k + 1].endswith("s")


def _is_day_of_month(s: Sentence, k: int) -> bool:
    """Whether a number from 1 to 31 stands beside a month: "May 3", "3 May"."""
    low = s.low[k]
    if not (low.isdecimal() and 1 <= int(low) <= 31):
        return False
    if k and s.tokens[k - 1] in MONTHS:
        return True
    return k + 1 < len(s) and s.tokens[k + 1] in MONTHS


def _is_time(s: Sentence, k: int) -> bool:
    """Whether the token is a time of day: "10:30", "9 am", "9 a.m.", "9 o'clock"."""
    low = s.low[k]
    if re.fullmatch(r"[012]?\d:[0-5]\d(:[0-5]\d)?", low):
        return True
    if not low.isdecimal() or int(low) > 24:
        return False
    behind = s.low[k + 1]
    return behind in ("am", "pm", "o'clock") or (behind in ("a", "p") and s.low[k + 2] == ".")


def _other(word: str, group: list[str], rng: Random) -> str:
    """A random word of the group that is not `word`."""
    return rng.choice([new for new in group if new != word])


def _shifted(value: int, least: int, most: int, rng: Random) -> int:
    """A random other integer between least and most."""
    while True:
        new = rng.randint(least, max(most, least + 1))
        if new != value:
            return new


def _other_numbers(text: str, rng: Random, top: int | None = None) -> list[str]:
    """Two different results of `_other_number`."""
    # A few draws, of which some may be equal.
    drawn = [_other_number(text, rng, top) for _ in range(4)]
    return list(dict.fromkeys(drawn))[:2]


def _other_number(text: str, rng: Random, top: int | None = None) -> str:
    """A number of the same length and punctuation with another value, below ``top`` if given."""
    if text.count(".") + text.count(":") > 1:  # a version number: change its last part
        head, mark, last = text.rpartition(".")
        if not last.isdecimal():
            return text
        return f"{head}{mark}{_shifted(int(last), 0, 9, rng)}"
    digits = re.split(r"[.,:]", text)[0]  # those before the first mark
    value = int(digits)
    if top is not None and value >= top:
        return str(rng.randint(top // 20, top - 5))
    if text == digits and len(text) <= 2:  # a small number stays in its range
        if value <= 12:
            return str(_shifted(value, 2, 12, rng))
        return str(_shifted(value, 13, 99, rng))
    if text == digits and text.endswith("0") and len(text) <= 4:  # round numbers stay round
        step = 100 if text.endswith("00") else 10
        least = 10 ** (len(text) - 1) // step
        return str(_shifted(value // step, least, 10 * least - 1, rng) * step)
    # Other numbers keep their digits but the first and the last.
    first = rng.choice([digit for digit in "123456789" if digit != text[0]])
    last = rng.choice("123456789") if text == digits else text[-1]
    return first + text[1:-1] + last
