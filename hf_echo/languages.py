"""Languages: codes, names, scripts, families, resource levels and subsets (OS Tables 32 and 33).

``LANGUAGES["fra_Latn"]`` is a :class:`Language`; ``find_language("French")``, ``("fr")`` and ``("fra")`` return its
code. A language outside Table 32 (from another corpus, or code and mathematics) has no family and no resource level.
The languages that a checkpoint was trained on are in its configuration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .language_table import (
    COMMON_80,
    FAMILIES,
    HIGH_RESOURCE,
    ISO_639_1,
    MAIN_SCRIPT,
    OTHER_CODES,
    OTHER_NAMES,
    SCRIPTS,
)
from .modeling.language_names_echo import LANGUAGE_NAMES
from .utils.did_you_mean import nearest

__all__ = ["LANGUAGES", "Language", "find_language", "is_language", "language"]


@dataclass(frozen=True)
class Language:
    """One row of the table.

    Attributes:
        code: NLLB code (``fra_Latn``), a longer relative (``por_Latn_BR``), or ``python``, ``latex`` ...
        name: English name, unique, as used in the prompts.
        script: English name of the script; None for code and mathematics.
        family: as in OS Table 32; None outside the table.
        resource: "high" or "low" (OS Table 32); None outside the table.
        nllb: one of the 204 languages of OS Table 32.
        base: one of the 202 languages that OmniSONAR-200 covers (Table 33: no ``arb_Latn``, ``min_Arab``).
        common80: supported by every model that OS compares (Table 33, bold), without English.
        speech: supported by OmniSONAR-speech. None for every language: the paper underlines 177 cells of
            Table 33, which the available text extraction does not show (see ``language_table``).
    """

    code: str
    name: str
    script: str | None
    family: str | None
    resource: str | None
    nllb: bool
    base: bool
    common80: bool
    speech: bool | None = None


_FAMILY_OF = {code: family for family, codes in FAMILIES.items() for code in codes.split()}


def _language(code: str, name: str) -> Language:
    nllb = code in _FAMILY_OF
    return Language(
        code=code,
        name=name,
        script=SCRIPTS[code.split("_")[1]] if "_" in code else None,
        family=_FAMILY_OF.get(code),
        resource=("high" if code in HIGH_RESOURCE else "low") if nllb else None,
        nllb=nllb,
        base=nllb and code not in ("arb_Latn", "min_Arab"),
        common80=code in COMMON_80,
    )


LANGUAGES: dict[str, Language] = {code: _language(code, name) for code, name in LANGUAGE_NAMES.items()}

_BY_NAME = {**OTHER_NAMES, **{language.name.lower(): code for code, language in LANGUAGES.items()}}


def is_language(code: str) -> bool:
    """Whether ``code`` is a known code, spelled exactly (``fra_Latn``, ``por_Latn_BR``, ``python``)."""
    return code in LANGUAGES


def language(code: str) -> Language:
    """The language of a code; ValueError for an unknown code names the closest known one."""
    try:
        return LANGUAGES[code]
    except (KeyError, TypeError):
        raise ValueError(f"unknown language code {code!r}{_suggestion(code)}") from None


def find_language(text: str) -> str:
    """Find the NLLB code of a name ("French"), an ISO 639 or BCP 47 code ("fr", "fra", "pt-BR") or an NLLB code.

    Case does not matter, with one exception: "Ga" is the language Ga, "ga" is Irish. A code of several varieties gives
    the most widely written one ("ar" is ``arb_Arab``, "zh" is ``zho_Hans``); an unknown region is dropped ("fr-CH" is
    ``fra_Latn``), an unknown script is an error.

    Raises:
        ValueError: an unknown language; the message names the closest match.
    """
    code = _find(text)
    if code is None:
        raise ValueError(f"unknown language {text!r}{_suggestion(text)}")
    return code


def _find(text: object) -> str | None:
    """The code that a name or code means, or None. An ISO 639-1 code comes before a name, if the name is not exact."""
    exact = text.strip() if isinstance(text, str) else ""
    wanted = exact.lower()
    code = _BY_NAME.get(wanted)
    if code and LANGUAGES[code].name != exact:
        code = ISO_639_1.get(wanted, code)
    return code or _find_code(wanted)


def _find_code(wanted: str) -> str | None:
    first, *rest = re.split(r"[-_]", wanted)
    script = next((part.title() for part in rest if len(part) == 4), None)
    region = next((part.upper() for part in rest if len(part) == 2), None)
    for special in (f"{first}_{script}", f"{first}_{region}"):
        if special in OTHER_CODES:
            return OTHER_CODES[special]
    if first in LANGUAGES and not rest:  # python, latex
        return first
    main = ISO_639_1.get(first) or OTHER_CODES.get(first) or _main_code(first)
    if main is None or script is None:
        code = main
    else:
        code = f"{main[:3]}_{script}"
    variety = f"{code}_{region}"
    return variety if variety in LANGUAGES else code if code in LANGUAGES else None


def _main_code(iso: str) -> str | None:
    """The NLLB code of an ISO 639-3 code: in its main script, or the one whose name has no script in brackets."""
    if iso in MAIN_SCRIPT:
        return f"{iso}_{MAIN_SCRIPT[iso]}"
    codes = (
        code
        for code, language in LANGUAGES.items()
        if code.startswith(f"{iso}_") and code.count("_") == 1 and not language.name.endswith(")")
    )
    return next(codes, None)


def _suggestion(text: object) -> str:
    """ ": did you mean fra_Latn (French)?", or where the known codes are listed, if none is close."""
    known = {code.lower(): code for code in LANGUAGES} | _BY_NAME
    code, wanted = _find(text), str(text).strip().lower()  # "fra", "fr", "French"
    if code is None and len(wanted) > 2:  # two letters are a code, and similar codes mean other languages
        code = known.get(nearest(wanted, known))
    if code is None:
        return ": see hf_echo.languages.LANGUAGES for the known ones"
    return f": did you mean {code} ({LANGUAGES[code].name})?"


# a name without script in brackets means the main script: "Chinese", "Kashmiri"
for _iso, _script in MAIN_SCRIPT.items():
    _code = f"{_iso}_{_script}"
    _BY_NAME.setdefault(LANGUAGES[_code].name.split(" (")[0].lower(), _code)
