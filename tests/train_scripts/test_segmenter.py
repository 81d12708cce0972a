"""The SaT workshop: training sets of translated sentences, a tiny SaT that learns,
and measures (OS A.1)."""

import numpy as np
import pytest
import segmentation_report as report
import segmenter as sat
import torch
from sacrebleu.metrics import BLEU

from hf_echo.data.builtin import builtin_nway
from hf_echo.data.segmentation import rule_segmenter, sat_segmenter

from ..refusals import refuses

COMMAND = "data"  # of the fixture `run`
LANGUAGES = ["fra_Latn", "jpn_Jpan", "eng_Latn"]


def cut(row: dict) -> list[str]:
    """The sentences of a row, by its ends."""
    starts = [0, *row["ends"][:-1]]
    return [row["text"][start:end].strip() for start, end in zip(starts, row["ends"], strict=True)]


class Translated:
    """Rows made of forty English sentences of the built-in corpus,
    whose translations are looked up."""

    def __init__(self):
        self.texts = {lang: builtin_nway(40, languages=[lang])["text"][:] for lang in LANGUAGES}
        english = self.texts["eng_Latn"]
        documents = [" ".join(english[start : start + 10]) for start in range(0, 40, 10)]

        def translate(block, source_lang, target_lang):
            return [self.texts[target_lang][english.index(text)] for text in block]

        options = {"sentences": 25, "per_document": 10, "progress": False}
        self.rows = list(
            sat.segmentation_examples(documents, LANGUAGES, rule_segmenter, translate, **options)
        )


@pytest.fixture(scope="module")
def translated():
    return Translated()


@pytest.mark.parametrize("place, lang", list(enumerate(LANGUAGES)))
def test_a_language_takes_the_next_sentences(translated, place, lang):
    sentences = []
    for row in translated.rows:
        if row["lang"] == lang:
            sentences += cut(row)
    window = range(25 * place, 25 * place + 25)
    assert sentences == [translated.texts[lang][number % 40] for number in window]


def test_a_row_has_so_many_sentences(translated):
    assert [len(row["ends"]) for row in translated.rows] == [10, 10, 5] * 3


def test_japanese_sentences_follow_without_a_space(translated):
    assert " " not in translated.rows[3]["text"]


def test_a_line_separator_in_a_text_ends_no_row(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"text": "un\u2028deux"}\n\n{"text": "x"}\n', encoding="utf-8"
    )
    assert [row["text"] for row in sat.read_examples(tmp_path / "a.jsonl")] == ["un\u2028deux", "x"]


def examples(translations: list[str], text: str = "A b. C d. E f.") -> list[dict]:
    """The rows of a text whose French is given."""
    options = {"sentences": 3, "progress": False}
    return list(
        sat.segmentation_examples(
            [text], ["fra_Latn"], rule_segmenter, lambda *_: translations, **options
        )
    )


def test_a_translator_that_loses_lines_is_refused():
    refuses("returned 2 lines for 3 sentences into fra_Latn", examples, ["x.", "y."])


def test_empty_translations_are_left_out():
    assert examples(["x.", " ", "y."]) == [{"lang": "fra_Latn", "text": "x. y.", "ends": [2, 5]}]


def test_texts_without_sentences_are_refused():
    refuses("contain no sentence", examples, [], " ")


def test_an_empty_sentence_is_named():
    refuses(r"sentence 2 of 2 \(eng_Latn\) is empty", sat.join_sentences, ["a", " "], "eng_Latn")


class Trained:
    """A SaT that has learnt, in sixty steps, that a full stop ends a sentence."""

    def __init__(self, folder):
        torch.manual_seed(0)
        rows = sat.builtin_examples("train", 48)
        self.folder = folder
        self.dev = sat.builtin_examples("dev", 16)
        model, tokenizer = sat.nano_segmenter(rows)
        options = sat.NANO | {
            "max_steps": 60,
            "per_device_train_batch_size": 8,
            "save_strategy": "no",
        }
        # A minute-sized run, measured before and after.
        self.trainer = sat.SegmenterTrainer(
            model,
            sat.segmenter_arguments(folder / "run", **options, disable_tqdm=True),
            tokenizer=tokenizer,
            train_dataset=sat.tokenize_examples(rows, tokenizer, 96),
            eval_dataset=sat.tokenize_examples(self.dev, tokenizer, 96),
        )
        self.before = self.trainer.evaluate()
        self.trainer.train()
        self.trainer.save_model(folder)
        self.after = self.trainer.evaluate()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return Trained(tmp_path_factory.mktemp("sat"))


@pytest.fixture(scope="module")
def segment(trained):
    """The saved model, as the package opens it."""
    return sat_segmenter(trained.folder)


def test_training_teaches_boundaries(trained):
    assert trained.after["eval_loss"] < 0.2 * trained.before["eval_loss"]
    assert trained.after["eval_f1"] > 0.9 > trained.before["eval_f1"]


@pytest.mark.parametrize("lang", ["fra_Latn", "rus_Cyrl"])
def test_the_saved_model_finds_boundaries(trained, segment, lang):
    for row in trained.dev:
        if row["lang"] == lang:
            assert report.boundary_scores([cut(row)], segment, lang).f1 > 90


def test_pieces_join_to_the_text(segment):
    texts = ["The cat sees a dog. The dog runs.\nNew line. ", "", "x", "no end " * 300]
    assert ["".join(pieces) for pieces in segment(texts, "eng_Latn")] == texts


def test_with_threshold_zero_every_token_ends_a_sentence(trained):
    text = "The cat sees a dog. The dog runs.\nNew line. "
    (pieces,) = sat_segmenter(trained.folder, threshold=0.0)([text])
    assert len(pieces) > 5
    assert "".join(pieces) == text


def test_the_command_segments_by_the_saved_model(trained, run, tmp_path):
    (tmp_path / "a.txt").write_text("The cat sees a dog.\n")
    words = ["--lang", "eng_Latn", "--out", tmp_path / "out", "--model", trained.folder]

    code, _, err = run("segment", tmp_path / "a.txt", *words)

    assert code == 0, err
    assert (tmp_path / "out").read_text().split() == ["The", "cat", "sees", "a", "dog."]


def test_loss_is_smoothed_binary_cross_entropy(trained):
    trainer = trained.trainer
    rows = [trainer.eval_dataset[0], trainer.eval_dataset[-1]]
    batch = sat.SegmenterCollator(trainer.processing_class)(rows)
    with torch.no_grad():
        logits = (
            trainer.model.eval()(batch["input_ids"], batch["attention_mask"])
            .logits[..., 0]
            .double()
            .numpy()
        )
        loss = trainer.compute_loss(trainer.model, batch).item()
    # The cross-entropy in NumPy, with labels smoothed by 0.001.
    labels = batch["labels"].numpy()
    p = 1 / (1 + np.exp(-logits))
    target = labels * 0.999 + 0.0005

    terms = -(target * np.log(p) + (1 - target) * np.log(1 - p))

    assert loss == pytest.approx(terms[labels != -100].mean(), rel=1e-4)


def test_labels_mark_the_token_that_holds_the_end():
    assert sat.token_labels([(0, 3), (3, 4), (5, 9), (9, 11)], [4, 10]) == [0, 1, 0, 1]


ROW = {"lang": "eng_Latn", "text": "The cat runs. A dog sleeps.", "ends": [13, 27]}


@pytest.fixture(scope="module")
def tokenizer():
    return sat.nano_segmenter([ROW] * 50)[1]


@pytest.fixture(scope="module")
def blocks(tokenizer):
    return list(sat.tokenize_examples([ROW], tokenizer, block_size=6))


def test_a_block_has_at_most_so_many_tokens(blocks):
    for block in blocks:
        assert len(block["input_ids"]) == len(block["labels"]) <= 6


def test_special_tokens_end_no_sentence(blocks):
    for block in blocks:
        assert block["labels"][0] == block["labels"][-1] == 0


def test_labels_of_blocks_are_those_of_the_text(blocks, tokenizer):
    labels = [label for block in blocks for label in block["labels"][1:-1]]
    tokens = tokenizer(ROW["text"], return_offsets_mapping=True, add_special_tokens=False)
    ends = [end for (_, end), label in zip(tokens["offset_mapping"], labels, strict=True) if label]
    assert ends == ROW["ends"]


def test_ends_outside_the_text_are_refused(tokenizer):
    refuses(
        r"row 1 \(eng_Latn\): ends must rise",
        sat.tokenize_examples,
        [ROW | {"ends": [13, 28]}],
        tokenizer,
    )


def at_every_word(texts, lang):
    return [[word + " " for word in text.split()] for text in texts]


def whole(texts, lang):
    return [[text] for text in texts]


def test_boundary_scores_count_inner_boundaries():
    """The ends behind "one" and "two.", one of them true."""
    result = report.boundary_scores([["one two.", "three."], ["four."]], at_every_word, "eng_Latn")
    assert (result.precision, result.recall, result.boundaries) == (50, 100, 1)
    assert result.f1 == pytest.approx(200 / 3)


def test_no_boundaries_score_zero():
    assert report.boundary_scores([["one two.", "three."]], whole, "eng_Latn").f1 == 0


def test_no_documents_have_no_score():
    refuses("no documents of eng_Latn", report.boundary_scores, [], whole, "eng_Latn")


PARAGRAPHS = {
    "eng_Latn": ["a b c", "a b"],
    "fra_Latn": ["a b c", "a b"],
    "deu_Latn": ["a b c", "a b c d e"],
}


def test_count_consistency_is_the_spread_about_the_mean_of_languages():
    difference = np.array([[3, 2], [3, 2], [3, 5]]) - np.array([3, 3])

    result = report.count_consistency(PARAGRAPHS, at_every_word)

    # Sentences of each paragraph and language, less those of the mean.
    assert result.std == pytest.approx(np.sqrt((difference**2).mean()))
    assert result.mean == {"eng_Latn": -0.5, "fra_Latn": -0.5, "deu_Latn": 1.0}


def test_equal_counts_are_consistent():
    assert report.count_consistency(PARAGRAPHS, whole).std == 0


def test_paragraphs_that_are_not_parallel_are_refused():
    message = "deu_Latn has 1 paragraphs and eng_Latn 2"
    refuses(message, report.count_consistency, PARAGRAPHS | {"deu_Latn": ["a"]}, whole)


FRENCH = {"fra_Latn": ["Un chat dort dans la maison. Un chien court dans le jardin."] * 2}


def faithful(sentences, source_lang, target_lang):
    return [sentence[::-1] for sentence in sentences]


def forgetful(sentences, source_lang, target_lang):
    """Drops the last word of each piece on the way to English: more cuts lose more words."""
    if target_lang != "eng_Latn":
        return sentences
    return [" ".join(sentence.split()[:-1]) for sentence in sentences]


def test_a_faithful_round_trip_has_full_bleu():
    table = report.round_trip_bleu(FRENCH, rule_segmenter, faithful)
    assert table.average["bleu"] == pytest.approx(100)


def test_round_trip_bleu_is_sacrebleus():
    cut_twice = ["Un chat dort dans la Un chien court dans le"] * 2
    # sacrebleu on what a translator that forgets words makes of it.
    by_hand = BLEU(tokenize="13a").corpus_score(cut_twice, [FRENCH["fra_Latn"]])

    row = report.round_trip_bleu(FRENCH, rule_segmenter, forgetful).rows[0]

    assert row["sentences"] == 4
    assert row["bleu"] == pytest.approx(by_hand.score)


def test_round_trip_bleu_falls_where_cuts_hurt_translation():
    by_rule = report.round_trip_bleu(FRENCH, rule_segmenter, forgetful).average["bleu"]
    uncut = report.round_trip_bleu(FRENCH, whole, forgetful).average["bleu"]
    assert uncut > by_rule


def test_a_round_trip_does_not_start_at_its_pivot():
    refuses(
        "in other languages only, got eng_Latn",
        report.round_trip_bleu,
        {"eng_Latn": ["a"]},
        whole,
        faithful,
    )


def test_a_round_trip_that_loses_lines_is_refused():
    lost = "the translator returned 0 lines for 4 sentences into eng_Latn"
    refuses(lost, report.round_trip_bleu, FRENCH, rule_segmenter, lambda *columns: [])
