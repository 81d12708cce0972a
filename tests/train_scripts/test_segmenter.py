"""The SaT workshop: training sets of translated sentences, a tiny SaT that learns, and measures (OS A.1)."""

import numpy as np
import pytest
import segmentation_report as report
import segmenter as sat
import torch
from sacrebleu.metrics import BLEU

from hf_echo.data.builtin import builtin_nway
from hf_echo.data.segmentation import rule_segmenter, sat_segmenter

from ..refusals import refuses

COMMAND = "data"


def lookup():
    """English sentences of the built-in corpus, and a translator for them."""
    texts = {lang: builtin_nway(40, languages=[lang])["text"][:] for lang in ("eng_Latn", "fra_Latn", "jpn_Jpan")}
    place = {(lang, text): i for lang in texts for i, text in enumerate(texts[lang])}
    return texts, lambda block, source, target: [texts[target][place[source, text]] for text in block]


def test_examples_hold_the_translations_of_consecutive_sentences():
    texts, translate = lookup()
    documents = [" ".join(texts["eng_Latn"][i : i + 10]) for i in range(0, 40, 10)]
    languages, options = ["fra_Latn", "jpn_Jpan", "eng_Latn"], dict(sentences=25, per_document=10, progress=False)
    rows = list(sat.segmentation_examples(documents, languages, rule_segmenter, translate, **options))
    windows = {"fra_Latn": range(0, 25), "jpn_Jpan": range(25, 50), "eng_Latn": range(50, 75)}
    for lang, window in windows.items():
        mine = [row for row in rows if row["lang"] == lang]
        assert [len(row["ends"]) for row in mine] == [10, 10, 5]
        cut = [row["text"][a:b].strip() for row in mine for a, b in zip([0, *row["ends"]], row["ends"], strict=False)]
        assert cut == [texts[lang][i % 40] for i in window]
    assert " " not in rows[3]["text"]  # Japanese sentences follow one another without a space


def test_a_line_separator_in_a_text_ends_no_row(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "un\u2028deux"}\n\n{"text": "x"}\n', encoding="utf-8")
    assert [row["text"] for row in sat.read_examples(tmp_path / "a.jsonl")] == ["un\u2028deux", "x"]


def test_a_translator_that_loses_lines_is_refused_and_empty_lines_left_out():
    def make(translate, text="A b. C d. E f."):
        options = dict(sentences=3, progress=False)
        return list(sat.segmentation_examples([text], ["fra_Latn"], rule_segmenter, translate, **options))

    refuses("returned 2 lines for 3 sentences into fra_Latn", lambda: make(lambda block, source, target: block[1:]))
    made = make(lambda block, source, target: ["x.", " ", "y."])[0]
    assert made == {"lang": "fra_Latn", "text": "x. y.", "ends": [2, 5]}
    refuses(r"sentence 2 of 2 \(eng_Latn\) is empty", sat.join_sentences, ["a", " "], "eng_Latn")
    refuses("contain no sentence", make, lambda *columns: [], " ")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A SaT that has learnt, in sixty steps, that a full stop ends a sentence."""
    torch.manual_seed(0)
    rows = sat.builtin_examples("train", 48)
    model, tokenizer = sat.nano_segmenter(rows)
    folder = tmp_path_factory.mktemp("sat")
    options = dict(sat.NANO) | {"max_steps": 60, "per_device_train_batch_size": 8, "save_strategy": "no"}
    arguments = sat.segmenter_arguments(folder / "run", **options, disable_tqdm=True)
    train, dev = (sat.tokenize_examples(part, tokenizer, 96) for part in (rows, sat.builtin_examples("dev", 16)))
    trainer = sat.SegmenterTrainer(model, arguments, tokenizer=tokenizer, train_dataset=train, eval_dataset=dev)
    before = trainer.evaluate()
    trainer.train()
    trainer.save_model(folder)
    return folder, before, trainer.evaluate(), trainer


def test_training_teaches_boundaries(trained):
    folder, before, after, _ = trained
    assert after["eval_loss"] < 0.2 * before["eval_loss"] and after["eval_f1"] > 0.9 > before["eval_f1"]
    segment = sat_segmenter(folder)
    for row in sat.builtin_examples("dev", 16):
        if row["lang"] in ("fra_Latn", "rus_Cyrl"):
            document = [row["text"][a:b] for a, b in zip([0, *row["ends"]], row["ends"], strict=False)]
            assert report.boundary_scores([document], segment, row["lang"]).f1 > 90


def test_sat_pieces_join_to_the_text(trained, run, tmp_path):
    folder = trained[0]
    texts = ["The cat sees a dog. The dog runs.\nNew line. ", "", "x", "no end " * 300]
    assert ["".join(pieces) for pieces in sat_segmenter(folder)(texts, "eng_Latn")] == texts
    everywhere = sat_segmenter(folder, threshold=0.0)(texts[:1])[0]  # every token ends a sentence
    assert len(everywhere) > 5 and "".join(everywhere) == texts[0]
    (tmp_path / "a.txt").write_text("The cat sees a dog.\n")
    code, _, _ = run("segment", tmp_path / "a.txt", "--lang", "eng_Latn", "--out", tmp_path / "o", "--model", folder)
    assert code == 0 and (tmp_path / "o").read_text().split() == "The cat sees a dog.".split()
    refuses("threshold=1.5", sat_segmenter, folder, threshold=1.5)


def test_loss_is_smoothed_binary_cross_entropy(trained):
    trainer = trained[3]
    batch = sat.SegmenterCollator(trainer.processing_class)([trainer.eval_dataset[0], trainer.eval_dataset[-1]])
    with torch.no_grad():
        logits = trainer.model.eval()(batch["input_ids"], batch["attention_mask"]).logits[..., 0].double().numpy()
        loss = trainer.compute_loss(trainer.model, batch).item()
    labels, p = batch["labels"].numpy(), 1 / (1 + np.exp(-logits))
    target = labels * 0.999 + 0.0005
    terms = -(target * np.log(p) + (1 - target) * np.log(1 - p))
    assert loss == pytest.approx(terms[labels != -100].mean(), rel=1e-4)


def test_labels_mark_the_token_that_holds_the_end():
    assert sat.token_labels([(0, 3), (3, 4), (5, 9), (9, 11)], [4, 10]) == [0, 1, 0, 1]
    rows = [{"lang": "eng_Latn", "text": "The cat runs. A dog sleeps.", "ends": [13, 27]}]
    _, tokenizer = sat.nano_segmenter(rows * 50)
    blocks = sat.tokenize_examples(rows, tokenizer, block_size=6)
    assert all(len(b["input_ids"]) == len(b["labels"]) <= 6 for b in blocks)
    assert all(b["labels"][0] == b["labels"][-1] == 0 for b in blocks)
    flat = [label for b in blocks for label in b["labels"][1:-1]]
    offsets = tokenizer(rows[0]["text"], return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]
    assert [stop for (_, stop), label in zip(offsets, flat, strict=True) if label] == [13, 27]
    rows[0]["ends"] = [13, 28]
    refuses(r"row 1 \(eng_Latn\): ends must rise", sat.tokenize_examples, rows, tokenizer)


def at_every_word(texts, lang):
    return [[word + " " for word in text.split()] for text in texts]


def whole(texts, lang):
    return [[text] for text in texts]


def test_boundary_scores_count_inner_boundaries():
    documents = [["one two.", "three."], ["four."]]
    # ends behind "one" and "two.", one of them true
    result = report.boundary_scores(documents, at_every_word, "eng_Latn")
    assert (result.precision, result.recall, result.boundaries) == (50, 100, 1)
    assert result.f1 == pytest.approx(200 / 3)
    assert report.boundary_scores(documents, whole, "eng_Latn").f1 == 0
    refuses("no documents of eng_Latn", report.boundary_scores, [], whole, "eng_Latn")


def test_count_consistency_is_the_spread_about_the_mean_of_languages():
    paragraphs = {"eng_Latn": ["a b c", "a b"], "fra_Latn": ["a b c", "a b"], "deu_Latn": ["a b c", "a b c d e"]}
    found = report.count_consistency(paragraphs, at_every_word)
    difference = np.array([[3, 2], [3, 2], [3, 5]]) - np.array([3, 3])
    assert found.std == pytest.approx(np.sqrt((difference**2).mean()))
    assert found.mean == {"eng_Latn": -0.5, "fra_Latn": -0.5, "deu_Latn": 1.0}
    assert report.count_consistency(paragraphs, whole).std == 0
    paragraphs["deu_Latn"] = ["a"]
    refuses("deu_Latn has 1 paragraphs and eng_Latn 2", report.count_consistency, paragraphs, whole)


def test_round_trip_bleu_falls_where_cuts_hurt_translation():
    """A translator that drops the last word of each piece: more cuts lose more words."""
    paragraphs = {"fra_Latn": ["Un chat dort dans la maison. Un chien court dans le jardin."] * 2}

    def forgetful(sentences, source_lang, target_lang):
        return [" ".join(s.split()[:-1]) if target_lang == "eng_Latn" else s for s in sentences]

    def faithful(sentences, source_lang, target_lang):
        return [s[::-1] for s in sentences]

    assert report.round_trip_bleu(paragraphs, rule_segmenter, faithful).average["bleu"] == pytest.approx(100)
    by_rule = report.round_trip_bleu(paragraphs, rule_segmenter, forgetful).rows[0]
    cut = ["Un chat dort dans la Un chien court dans le"] * 2
    want = BLEU(tokenize="13a").corpus_score(cut, [paragraphs["fra_Latn"]])
    assert (by_rule["sentences"], by_rule["bleu"]) == (4, pytest.approx(want.score))
    assert report.round_trip_bleu(paragraphs, whole, forgetful).rows[0]["bleu"] > by_rule["bleu"]
    refuses("in other languages only, got eng_Latn", report.round_trip_bleu, {"eng_Latn": ["a"]}, whole, faithful)
    lost = "the translator returned 0 lines for 4 sentences into eng_Latn"
    refuses(lost, report.round_trip_bleu, paragraphs, rule_segmenter, lambda *columns: [])
