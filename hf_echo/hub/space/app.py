"""A page to look at hf-echo: search, translate, align words, map of a space, speech. On the CPU, without network.

    hf-echo space                 # on this machine
    python app.py                 # as a Space of the Hugging Face Hub does

The variables HF_ECHO_SPACE_MODEL and HF_ECHO_SPACE_SPEECH (folder or Hub name) open other models.
"""

import os

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
    """The page over opened models."""
    # One request at a time: tokenizers must not be used by two threads at once, and a CPU gains nothing.
    options = {"concurrency_id": "model", "concurrency_limit": 1}
    with gr.Blocks(title="hf-echo", analytics_enabled=False) as page:
        gr.Markdown(f"# hf-echo\nSentences of many languages in one space of embeddings. {HOW}")
        with gr.Tab("Search"):
            queries = gr.Textbox(QUERIES, label="Search for", lines=3, max_lines=8)
            texts = gr.Textbox(SENTENCES, label="Sentences", lines=6, max_lines=12)
            button = gr.Button("Search", variant="primary")
            gr.Markdown(
                "The margin divides the cosine by the mean cosine of both sentences' nearest neighbours. It corrects "
                "for sentences that are close to many others; above 1 the pair stands out."
            )
            answer = gr.HTML()
            button.click(
                shown(views.search), [queries, texts], answer, api_name="search", **options
            )
            # The page opens with the answer to its example.
            page.load(
                shown(views.search), [queries, texts], answer, api_visibility="private", **options
            )
        with gr.Tab("Translate"):
            texts = gr.Textbox(TRANSLATE, label="Sentences", lines=4, max_lines=12)
            target = gr.Dropdown(views.targets, value=views.targets[0][1], label="Into")
            button = gr.Button("Translate", variant="primary")
            button.click(
                shown(views.translate), [texts, target], gr.HTML(), api_name="translate", **options
            )
        with gr.Tab("Align words"):
            source = gr.Textbox("French: Le chat noir dort dans la maison.", label="First sentence")
            other = gr.Textbox(
                "English: The black cat is sleeping in the house.", label="Second sentence"
            )
            button = gr.Button("Align", variant="primary")
            button.click(
                shown(views.align), [source, other], gr.HTML(), api_name="align", **options
            )
        with gr.Tab("Map"):
            texts = gr.Textbox(PARALLEL, label="Sentences", lines=6, max_lines=15)
            button = gr.Button("Draw", variant="primary")
            button.click(shown(views.map), [texts], gr.HTML(), api_name="map", **options)
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
                button = gr.Button("Find its sentence", variant="primary")
                button.click(
                    shown(views.find_speech),
                    [audio, texts],
                    gr.HTML(),
                    api_name="speech",
                    **options,
                )
    return page.queue(max_size=MAX_WAITING)


if __name__ == "__main__":
    environment = os.environ.get
    opened = SpaceViews(
        environment("HF_ECHO_SPACE_MODEL") or "echo-nano", environment("HF_ECHO_SPACE_SPEECH")
    )
    build(opened).launch(**LAUNCH)
