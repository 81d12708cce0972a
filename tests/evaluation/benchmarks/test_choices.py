"""Multiple choice of OS 9.1 from rows of the sets:
prompts as printed, letters by NLL, English questions."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hf_echo.evaluation.benchmarks.choices import (
    cross_lingual_choices,
    load_choices,
    spoken_topics,
    topic_choices,
    topic_prompt,
    without_sentences,
)
from hf_echo.evaluation.spectrum import choice_accuracy

from ...refusals import refusals, refuses
from .test_public_sets import copy

END = 9


class LetterModel:
    """Stands for a Spectrum whose loss of each token is given, whatever the document says."""

    config = SimpleNamespace(
        start_token_id=1, prompt_ids=[1, 2], decoder=SimpleNamespace(eos_token_id=END)
    )

    def __init__(self, losses):
        self.losses = losses
        self.options = []
        self.prompts = []

    def encode_document(self, documents):
        return documents

    def score_options(self, document, options, prompts):
        self.options += options
        self.prompts += prompts
        return torch.tensor([[self.loss(ids) for ids in of_question] for of_question in options])

    def loss(self, ids):
        return sum(self.losses.get(token, 0.0) for token in ids)


class Characters:
    def text_ids(self, texts):
        return [[ord(character) for character in text] for text in texts]


def one_vector(sentences, lang):
    return np.zeros((len(sentences), 2), dtype="float32")


def losses_of(**letters):
    return {ord(letter): loss for letter, loss in letters.items()}


def question(lang, answer=2, **more):
    row = {"id": "page#1", "lang": lang, "document": "Un. Deux.", "question": "Which number?"}
    return row | {"options": ["one", "two", "three", "four"], "answer": answer} | more


ENGLISH = question("eng_Latn")
FRENCH = question("fra_Latn", question="Quel nombre ?", options=["un", "deux", "trois", "quatre"])


def letters_of(rows, english):
    return cross_lingual_choices(rows, english, letters=True)


@pytest.mark.parametrize(("best", "accuracy"), [("A", 0), ("B", 0), ("C", 100), ("D", 0)])
def test_the_letter_of_the_lowest_loss_is_the_answer(best, accuracy):
    losses = losses_of(**dict.fromkeys("ABCD", 5.0) | {best: 1.0})
    table = choice_accuracy(
        LetterModel(losses), Characters(), one_vector, letters_of([FRENCH], [ENGLISH])
    )
    assert table.rows == [{"lang": "fra_Latn", "accuracy": accuracy, "chance": 25, "count": 1}]


@pytest.fixture
def asked_model():
    """A model that was asked the French question."""
    model = LetterModel(losses_of(A=1.0))
    choice_accuracy(model, Characters(), one_vector, letters_of([FRENCH], [ENGLISH]))
    return model


def test_letters_are_scored_without_an_end(asked_model):
    assert asked_model.options == [[[ord("A")], [ord("B")], [ord("C")], [ord("D")]]]


def test_the_prompt_is_english(asked_model):
    """OS 9.1: question block, choices block ("A: B: C: D:"), target format."""
    prompt = "".join(map(chr, asked_model.prompts[0][1:]))

    assert "Question: Which number?" in prompt
    assert "Here are the choices:\nA: one\nB: two\nC: three\nD: four" in prompt
    assert prompt.endswith("Return only the ID of the correct option.")
    assert "Quel" not in prompt
    assert "trois" not in prompt


def test_the_text_of_an_answer_does_not_count():
    # A model that likes the word "one" best of all, but the letter C among letters.
    losses = losses_of(**dict.fromkeys("ABD", 5.0), C=4.0) | {ord("o"): -99.0}
    table = choice_accuracy(
        LetterModel(losses), Characters(), one_vector, letters_of([FRENCH], [ENGLISH])
    )
    assert table.rows[0]["accuracy"] == 100


def test_options_in_another_order_are_an_error():
    shuffled = question("fra_Latn", answer=0)
    refuses(
        "fra_Latn, id page#1: option 1 is right, but 3 in English",
        letters_of,
        [shuffled],
        [ENGLISH],
    )


test_refusals = refusals(
    ([FRENCH], [ENGLISH | {"id": "page#2"}], "fra_Latn, id page#1: there is no English question"),
    call=letters_of,
)


def test_endings_are_scored_as_text_with_their_end():
    story = question("swh_Latn", answer=1, options=["x", "y"])
    english = question("eng_Latn", answer=1, options=["no", "yes"])
    model = LetterModel({ord("y"): -1.0})
    table = choice_accuracy(
        model, Characters(), one_vector, cross_lingual_choices([story], [english], letters=False)
    )
    assert table.rows[0]["accuracy"] == 100
    assert model.options == [[[*map(ord, "no"), END], [*map(ord, "yes"), END]]]
    assert model.prompts == [[1, 2]]  # a plain continuation


def test_documents_are_cut_in_their_language():
    seen = []

    def cut(texts, lang):
        seen.append((list(texts), lang))
        return [["Un. ", "Deux."]]

    (choice,) = cross_lingual_choices([FRENCH], [ENGLISH], letters=True, cut=cut)
    assert seen == [(["Un. Deux."], "fra_Latn")]
    assert choice.sentences == ["Un.", "Deux."]


SPOKEN = question("fra_Latn", document=["clip 1", "clip 2"], spoken_texts=["Un.", "Deux."])


@pytest.mark.parametrize(
    ("as_text", "sentences"), [(False, ["clip 1", "clip 2"]), (True, ["Un.", "Deux."])]
)
def test_a_document_is_speech_or_its_text(as_text, sentences):
    (choice,) = cross_lingual_choices([SPOKEN], [ENGLISH], letters=True, as_text=as_text)

    assert choice.sentences == sentences


def test_prompt_of_figure_7():
    printed = (
        "Categorize the Indonesian document appropriately. Return only the category label.\n\n"
        'Options: "a. science/technology, b. travel, c. politics, d. sports, e. health, f. entertainment, '
        'g. geography". Which is correct?\nOutput the correct option by writing both the ID and the answer text.'
    )
    (choice,) = topic_choices([{"text": "Satu. Dua.", "lang": "ind_Latn", "label": "sports"}])
    assert choice.prompt == printed
    assert choice.options[choice.answer] == "d. sports"
    assert choice.sentences == ["Satu. Dua."]  # OS 9.1: not cut


def test_prompt_of_a_language_without_a_name():
    assert topic_prompt("aak", ("Sin",)).startswith("Categorize the document appropriately.")


def test_what_fleurs_has_in_training_is_left_out():
    heard = question("fra_Latn", spoken_texts=["Il  pleut.", "Il neige."])
    unheard = question("fra_Latn", spoken_texts=["Il fait beau."])
    assert without_sentences([heard, unheard], ["il pleut."]) == [unheard]


def test_speech_sib_is_what_fleurs_has():
    french = {"lang": "fra_Latn", "text": "Un  chat.", "label": "travel"}
    occitan = french | {"lang": "oci_Latn"}

    spoken = spoken_topics([french, occitan], {("fra_Latn", "un chat."): "clip"})

    assert spoken == [french | {"text": "clip", "spoken_texts": ["Un  chat."]}]


@pytest.mark.filterwarnings("ignore")
def test_from_the_files_of_belebele(tmp_path):
    (choice,) = load_choices("belebele", langs=["fra_Latn"], path=copy("belebele", tmp_path))
    assert choice.answer == 1
    assert choice.options == ["A", "B", "C", "D"]
    assert "B: on the mat" in choice.prompt


@pytest.mark.filterwarnings("ignore")
def test_speech_takes_the_questions_of_belebele(tmp_path):
    speech = copy("speech_belebele", tmp_path / "2M")
    text = copy("belebele", tmp_path / "text")

    (choice,) = load_choices("speech_belebele", path=speech, english_path=text)

    assert choice.sentences[0]["sampling_rate"] == 16000
    assert "B: on the mat" in choice.prompt


@pytest.mark.filterwarnings("ignore")
def test_a_set_of_excluded_documents_alone_is_refused(tmp_path):
    speech = copy("speech_belebele", tmp_path)
    exclude = ["Le chat est sur le tapis."]

    refuses("no document is left", load_choices, "speech_belebele", path=speech, exclude=exclude)


def test_sets_without_multiple_choice_are_refused():
    refuses("'panx' has no multiple choice; choose from belebele", load_choices, "panx")
