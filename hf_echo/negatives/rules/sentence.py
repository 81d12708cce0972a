"""An English sentence as tokens that can be edited: casing, spacing and "a"/"an" stay correct.

Clitics are separate tokens: "don't" is ``do`` ``n't``, "Tom's" is ``Tom`` ``'s``.
``Sentence(text).render({})`` is exactly the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(
    r"""(\s*)(
      (?:(?<=\s)|(?<![\w.]))\d+(?:[.,:]\d+)*(?:st|nd|rd|th|s)?(?![\w])   # 5  1,000  2.5  10:30  19th  1990s
    | (?:[A-Z]\.){2,}                                                   # U.S.
    | [^\W\d_]+?(?=n['’]t\b)                                            # do | n't
    | n['’]t\b
    | ['’](?:s|m|re|ve|ll|d)\b                                          # Tom | 's
    | [^\W\d_]+(?:['’](?!(?:s|m|re|ve|ll|d)\b)[^\W\d_]+)*(?![\w])       # words, o'clock
    | \w+                                                               # tokens with digits: CG4684, Base16
    | .
    )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)

_VOWEL_SOUND = re.compile(
    r"(?:8|11\b|18\b|[aeio]|u(?!ni(?![dmn])|s[ae]|ti|k\b|\.)|hono|hour|heir|honest)", re.IGNORECASE
)
_CONSONANT_SOUND = re.compile(r"(?:eu|one\b|once\b|ubiq|ur[ai])", re.IGNORECASE)


def article_for(word: str) -> str:
    """The article "a" or "an", by the first sound of the word."""
    if len(word) > 1 and word.isupper() and word[0] in "FHLMNRSXU":  # spelled out: an MRI, a UN
        sounds_as_vowel = word[0] != "U" and word[1] not in "AEIOUY"
    else:
        starts_with_vowel = _VOWEL_SOUND.match(word) is not None
        sounds_as_vowel = starts_with_vowel and not _CONSONANT_SOUND.match(word)
    return "an" if sounds_as_vowel else "a"


def cased(word: str, like: str) -> str:
    """``word`` in the casing of ``like``: all capitals, first capital, or unchanged."""
    if len(like) > 1 and like.isupper() and like not in ("I'M",):
        return word.upper()
    if like[:1].isupper():
        return word[:1].upper() + word[1:]
    return word


class Sentence:
    """Tokens of one text (perhaps several sentences): words, numbers, clitics and single
    punctuation marks.

    `low` are the tokens in lower case with straight apostrophes, followed by four empty strings;
    `starts` are positions that begin a sentence.
    """

    def __init__(self, text: str):
        self.text = text
        self.spaces: list[str] = []
        self.tokens: list[str] = []
        end = 0
        for match in _TOKEN.finditer(text):
            self.spaces.append(match[1])
            self.tokens.append(match[2])
            end = match.end()
        self.tail = text[end:]
        self.low = [token.lower().replace("’", "'") for token in self.tokens]
        # Rules look some tokens ahead, also at the end.
        self.low += [""] * 4
        self.starts = self._sentence_starts()
        self.verbs: list | None = None  # filled by clauses.finite_verbs

    def __len__(self) -> int:
        return len(self.tokens)

    def before(self, k: int, steps: int = 1) -> str:
        """Lower-case token ``steps`` places before k, "" at the start of the text."""
        return self.low[k - steps] if k >= steps else ""

    def is_name(self, k: int) -> bool:
        """Whether token k is capitalised and not at the start of a sentence."""
        if not 0 <= k < len(self) or k in self.starts:
            return False
        return self.tokens[k][0].isupper() and self.low[k] != "i"

    def in_compound(self, k: int) -> bool:
        """Whether a hyphen stands before or behind token k."""
        return self.low[k + 1] == "-" or self.before(k) == "-"

    def in_code(self, k: int) -> bool:
        """Whether token k is part of a path, a call or a dotted name:
        "local.d/00", "open(", "snake_case"."""
        before = self.before(k)
        behind = self.low[k + 1]
        if before in ("/", "_", "=", "\\") or (before == "." and not self.spaces[k]):
            return True
        if k + 1 >= len(self) or self.spaces[k + 1]:
            return False
        if behind in ("/", "_", "=", "(", "\\"):
            return True
        return (
            behind == "."
            and k + 2 < len(self)
            and not self.spaces[k + 2]
            and self.tokens[k + 2][0].isalnum()
        )

    def render(self, edits: Mapping[int, str]) -> str:
        """The text with tokens replaced: {position: new text}; "" removes a token.
        Adapts the article before it."""
        tokens = self.tokens.copy()
        spaces = self.spaces.copy()
        # All edits first: the neighbour of one may be another.
        for k, new in edits.items():
            tokens[k] = new
        for k, new in edits.items():
            # "a" or "an" before the new word, also before a quotation mark.
            article = k - 1
            if self.before(k) in ("“", '"', "‘", "'"):
                article = k - 2
            if new and article >= 0 and self.low[article] in ("a", "an") and article not in edits:
                tokens[article] = cased(article_for(new), self.tokens[article])
            if new == "":
                self._drop(k, tokens, spaces, edits)
        pieces = [space + token for space, token in zip(spaces, tokens, strict=True)]
        return "".join(pieces) + self.tail

    def _drop(self, k: int, tokens: list[str], spaces: list[str], edits: Mapping[int, str]) -> None:
        """Remove a token's space, and capitalise the next token if it began a sentence."""
        if k in self.starts:
            for j in range(k + 1, len(tokens)):
                if edits.get(j) != "":
                    tokens[j] = tokens[j][:1].upper() + tokens[j][1:]
                    spaces[j] = spaces[k]
                    break
        spaces[k] = ""

    def _sentence_starts(self) -> frozenset[int]:
        """Where a sentence begins: the first word, and those behind an end or an opening quotation
        mark."""
        starts = set()
        is_new_sentence = True
        for k, token in enumerate(self.tokens):
            if token[0].isalnum():
                if is_new_sentence:
                    starts.add(k)
                is_new_sentence = False
            elif token in ".!?:":
                is_new_sentence = True
            elif token in '“"‘' and (k == 0 or self.spaces[k]):
                is_new_sentence = True  # a quotation mark after a space opens direct speech
        return frozenset(starts)
