"""`hf-echo tour`: search and translate in ten languages with echo-nano, without training or network."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .. import pretrained

# Ten texts on ten topics in ten languages: only the meaning connects a query and its text.
TEXTS = {
    "fra_Latn": "Le parlement a adopté la nouvelle loi mardi soir.",
    "deu_Latn": "Der Zug nach Berlin hat zwanzig Minuten Verspätung.",
    "spa_Latn": "Los científicos descubrieron una nueva especie de pez.",
    "rus_Cyrl": "Врачи советуют летом пить больше воды.",
    "zho_Hans": "这家公司明年将建一座新工厂。",
    "jpn_Jpan": "台風のため、学校は明日休みになります。",
    "arb_Arab": "فاز الفريق بالمباراة النهائية أمس.",
    "hin_Deva": "किसान बारिश का इंतज़ार कर रहे हैं।",
    "tur_Latn": "Müze pazartesi günleri kapalıdır.",
    "swh_Latn": "Watoto wanacheza mpira uwanjani.",
}
QUERIES = {
    "Parliament passed the new law on Tuesday.": "fra_Latn",
    "The train to Berlin is late.": "deu_Latn",
    "Scientists have found a new kind of fish.": "spa_Latn",
    "Doctors say that one should drink water.": "rus_Cyrl",
    "The company is going to build a factory.": "zho_Hans",
    "There is no school tomorrow because of the storm.": "jpn_Jpan",
    "The team won the final.": "arb_Arab",
    "Farmers wait for the rain.": "hin_Deva",
    "On which day is the museum closed?": "tur_Latn",
    "Children are playing football in the field.": "swh_Latn",
}
SHORT = [  # for the decoder: at this size it translates short everyday sentences, not news
    ("deu_Latn", "Die Datei konnte nicht geöffnet werden."),
    ("deu_Latn", "Ich habe heute keine Zeit."),
    ("fra_Latn", "Je n'ai pas d'argent."),
    ("rus_Cyrl", "Я люблю читать книги."),
]


def run_tour(console: Console | None = None, name: str = "echo-nano") -> dict[str, str]:
    """Search the texts with English queries, then translate; returns {query: language of its nearest text}."""
    from ..inference import encode, load_translator, translate
    from ..search import nearest_neighbours

    console = console or Console()
    model, tokenizer = load_translator(pretrained(name), device="cpu", dtype="fp32")
    texts, languages = list(TEXTS.values()), list(TEXTS)
    embeddings = encode(model, tokenizer, texts, languages, normalize=True)
    found = nearest_neighbours(encode(model, tokenizer, list(QUERIES), "eng_Latn", normalize=True), embeddings, 1)
    table = Table(title=f"{name}: English sentences, and their nearest text of ten languages")
    for heading in ("English", "cosine", "", "nearest text"):
        table.add_column(heading)
    nearest = {}
    for query, cosine, best in zip(QUERIES, found.scores[:, 0], found.indices[:, 0]):
        lang, text = languages[best], texts[best]
        nearest[query] = lang
        table.add_row(query, f"{cosine:.2f}", "" if lang == QUERIES[query] else "wrong", text)
    console.print(table)
    table = Table(title=f"{name}'s decoder on four chosen sentences (its card shows ten unselected ones)")
    for heading in ("", "text", "English"):
        table.add_column(heading)
    languages, texts = zip(*SHORT)
    written = translate(model, tokenizer, texts, languages, max_new_tokens=40)
    for lang, text, english in zip(languages, texts, written):
        table.add_row(lang, text, english)
    console.print(table)
    return nearest
