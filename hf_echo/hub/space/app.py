"""A page to look at hf-echo: search, translate, align words, map of a space, speech. On the CPU,
without network.

    hf-echo space                 # on this machine
    python app.py                 # as a Space of the Hugging Face Hub does

The variables HF_ECHO_SPACE_MODEL and HF_ECHO_SPACE_SPEECH (folder or Hub name) open other models.
"""

import os
from collections.abc import Callable

import gradio as gr

from hf_echo.hub.space_html import CSS
from hf_echo.hub.space_views import NO_SPEECH, SpaceViews, shown

SENTENCES = """French: Le parlement a adopté la nouvelle loi mardi soir.
German: Der Zug nach Berlin hat zwanzig Minuten Verspätung.
Spanish: Los científicos descubrieron una nueva especie de pez.
Russian: Врачи советуют летом пить больше воды.
Chinese: 这家公司明年将建一座新工厂。
Japanese: 台風のため、学校は明日休みになります。
Arabic: فاز الفريق بالمباراة النهائية أمس.
Hindi: किसान बारिश का इंतज़ार कर रहे हैं।
Turkish: Müze pazartesi günleri kapalıdır.
Swahili: Watoto wanacheza mpira uwanjani."""
QUERIES = """English: The train to Berlin is late.
English: There is no school tomorrow because of the storm.
English: The team won the final."""
TRANSLATE = """German: Die Datei konnte nicht geöffnet werden.
French: Je n'ai pas d'argent.
Russian: Я люблю читать книги."""
PARALLEL = """English: The cat sleeps.
French: Le chat dort.
German: Die Katze schläft.
Spanish: El gato duerme.
Russian: Кошка спит.
English: I have no money.
French: Je n'ai pas d'argent.
German: Ich habe kein Geld.
Spanish: No tengo dinero.
Russian: У меня нет денег.
English: Where is the station?
French: Où est la gare ?
German: Wo ist der Bahnhof?
Spanish: ¿Dónde está la estación?
Russian: Где находится вокзал?"""
ALIGN = (
    "French: Le chat noir dort dans la maison.",
    "English: The black cat is sleeping in the house.",
)
BUTTONS = {
    "search": "Search",
    "translate": "Translate",
    "align": "Align",
    "map": "Draw",
    "speech": "Find its sentence",
}
MARGIN = (
    "The margin divides the cosine by the mean cosine of both sentences' nearest neighbours. It corrects for sentences "
    "that are close to many others; above 1 the pair stands out."
)
HOW = (
    "One sentence per line. The language in front (`French: ...` or `fra_Latn: ...`) is optional; the model knows it "
    "then. This is a small model: expect errors."
)
# Strings name fonts of the visitor's machine; the default theme would load some from the network.
THEME = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
LAUNCH = {
    "theme": THEME,
    "css": CSS,
    "ssr_mode": False,
    "footer_links": [],
    "max_file_size": "10mb",
}
MAX_WAITING = 16  # visitors; others are told to come again


def build(views: SpaceViews) -> gr.Blocks:
    """The page over opened models. Each tab opens with the answer to its examples, which is
    computed here once."""
    # One request at a time: tokenizers must not be used by two threads at once, and a CPU gains nothing.
    options = {"concurrency_id": "model", "concurrency_limit": 1}

    def answer(view: Callable[..., str], fields: list[gr.components.Component], name: str) -> None:
        button = gr.Button(BUTTONS[name], variant="primary")
        if name == "search":
            gr.Markdown(MARGIN)
        page_of = shown(view)
        examples = [field.value for field in fields]
        html = gr.HTML(page_of(*examples) if all(examples) else "")
        button.click(page_of, fields, html, api_name=name, **options)

    with gr.Blocks(title="hf-echo", analytics_enabled=False) as page:
        gr.Markdown(f"# hf-echo\nSentences of many languages in one space of embeddings. {HOW}")
        with gr.Tabs(overflow_behavior="wrap"):  # a phone shows all of them
            with gr.Tab("Search"):
                queries = gr.Textbox(QUERIES, label="Search for", lines=3, max_lines=8)
                texts = gr.Textbox(SENTENCES, label="Sentences", lines=6, max_lines=12)
                answer(views.search, [queries, texts], "search")
            with gr.Tab("Translate"):
                texts = gr.Textbox(TRANSLATE, label="Sentences", lines=4, max_lines=12)
                target = gr.Dropdown(views.targets, value=views.targets[0][1], label="Into")
                answer(views.translate, [texts, target], "translate")
            with gr.Tab("Align words"):
                source = gr.Textbox(ALIGN[0], label="First sentence")
                other = gr.Textbox(ALIGN[1], label="Second sentence")
                answer(views.align, [source, other], "align")
            with gr.Tab("Map"):
                texts = gr.Textbox(PARALLEL, label="Sentences", lines=6, max_lines=15)
                answer(views.map, [texts], "map")
            with gr.Tab("Speech"):
                if views.speech_encoder is None:
                    gr.Markdown(NO_SPEECH)
                else:
                    audio = gr.Audio(
                        sources=["microphone", "upload"],
                        type="filepath",
                        label="Recording",
                        buttons=["download"],
                    )
                    texts = gr.Textbox(SENTENCES, label="Sentences", lines=6, max_lines=12)
                    answer(views.find_speech, [audio, texts], "speech")
    return page.queue(max_size=MAX_WAITING)


if __name__ == "__main__":
    environment = os.environ.get
    opened = SpaceViews(
        environment("HF_ECHO_SPACE_MODEL") or "echo-nano", environment("HF_ECHO_SPACE_SPEECH")
    )
    build(opened).launch(**LAUNCH)
