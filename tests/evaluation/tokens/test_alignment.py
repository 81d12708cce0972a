"""Alignment against rules written out in loops, hand-made links and hand-computed error rates."""

import json

import numpy as np
import pytest
import torch
from datasets import Dataset
from scipy.spatial.distance import cosine

from hf_echo.evaluation.tokens.alignment import (
    alignment_error_rate,
    argmax_links,
    evaluate_alignment,
    itermax_links,
    load_alignment,
    parse_links,
    token_similarity,
    word_links,
)

COMMAND = "evaluate alignment"


def mutual(similarity: list[list[float]]) -> set[tuple[int, int]]:
    """The definition, in loops: the first of equals is the best."""
    links = set()
    for i, row in enumerate(similarity):
        j = row.index(max(row))
        column = [other[j] for other in similarity]
        if column.index(max(column)) == i:
            links.add((i, j))
    return links


def itermax(similarity: list[list[float]], iterations: int) -> set[tuple[int, int]]:
    """Jalili Sabet et al. 2020, algorithm 1, with alpha 0.9 and the ends that their program has."""
    m = len(similarity)
    n = len(similarity[0])
    links = mutual(similarity)
    if min(m, n) <= 2:
        return links
    for _ in range(iterations - 1):
        # A link takes its row and its column; what competes with one counts less, with two nothing.
        rows = {i for i, _ in links}
        columns = {j for _, j in links}
        if len(rows) == m or len(columns) == n:
            break
        scaled = [list(row) for row in similarity]
        for i, j in np.ndindex(m, n):
            if i in rows and j in columns:
                scaled[i][j] = 0.0
            elif i in rows or j in columns:
                scaled[i][j] *= 0.9
        new_links = {(i, j) for i, j in mutual(scaled) if i not in rows or j not in columns}
        if not new_links:
            break
        links.update(new_links)
    return links


def as_set(links: np.ndarray) -> set[tuple[int, int]]:
    return {(i, j) for i, j in np.argwhere(links).tolist()}


def random_similarities() -> list[np.ndarray]:
    """100 matrices of up to eight tokens a side, every second one with ties."""
    rng = np.random.default_rng(0)
    matrices = []
    for number in range(100):
        matrix = rng.random(rng.integers(1, 9, size=2))
        matrices.append(matrix.round(1) if number % 2 else matrix)
    return matrices


def test_argmax_is_the_loop():
    for matrix in random_similarities():
        assert as_set(argmax_links(matrix)) == mutual(matrix.tolist())


@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
def test_itermax_is_the_loop(iterations):
    for matrix in random_similarities():
        assert as_set(itermax_links(matrix, iterations=iterations)) == itermax(
            matrix.tolist(), iterations
        )


def test_similarity_is_the_cosine_from_0_to_1():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 5))
    y = rng.normal(size=(2, 4, 5))

    similarity = token_similarity(x, y)

    for layer, i, j in np.ndindex(2, 3, 4):
        distance = cosine(x[layer, i], y[layer, j])  # 1 - cosine
        assert similarity[layer, i, j] == pytest.approx(1 - distance / 2)


def test_words_are_linked_by_any_of_their_tokens():
    """Tokens 0 and 1 are word 0, token 2 none; of the target 0 and 1 are word 0, 2 and 3 word 1."""
    links = np.array([[1, 0, 0, 0], [1, 0, 0, 1], [0, 1, 0, 0]])

    assert word_links(links, np.array([0, 0, -1]), np.array([0, 0, 1, 1])) == {(0, 0), (0, 1)}


PREDICTED = {(0, 0), (1, 1), (1, 2), (2, 2)}
SURE = {(0, 0), (1, 1)}
POSSIBLE = {(1, 2), (2, 3)}
# The example of nltk's documentation.
NLTK_TEST = {(0, 0), (1, 2), (2, 1)}
NLTK_REFERENCE = {(0, 0), (1, 1), (2, 2)}


def test_error_rate_by_hand():
    scores = alignment_error_rate([PREDICTED], [SURE], [POSSIBLE])

    # Of four predicted links three are possible ones, and both sure ones are among them.
    assert scores.aer == pytest.approx(1 - (2 + 3) / (4 + 2))
    assert scores.precision == 3 / 4
    assert scores.recall == 1
    assert scores.f1 == pytest.approx(6 / 7)


def test_error_rate_is_that_of_nltk():
    assert alignment_error_rate([NLTK_TEST], [NLTK_REFERENCE]).aer == pytest.approx(
        0.6666666666666667
    )


def test_error_rate_of_two_sentences_is_of_their_sums():
    scores = alignment_error_rate([PREDICTED, NLTK_TEST], [SURE, NLTK_REFERENCE], [POSSIBLE, set()])

    assert scores.aer == pytest.approx(1 - (2 + 3 + 1 + 1) / (4 + 2 + 3 + 3))
    assert scores.sentences == 2


def test_nothing_predicted_has_no_precision():
    scores = alignment_error_rate([set()], [SURE])

    assert scores.aer == 1
    assert scores.precision is None
    assert scores.recall == scores.f1 == 0


def test_a_reference_without_sure_links_is_refused():
    with pytest.raises(ValueError, match="no sure links"):
        alignment_error_rate([NLTK_TEST], [set()], [NLTK_REFERENCE])


@pytest.fixture
def rows(toy) -> list[dict]:
    """A sentence with itself, and the identity as its alignment."""
    rows = []
    for meaning in toy.split("dev")[:6]:
        words = [*toy.say(meaning, "eng_Latn")[:-1].split(), "."]
        links = " ".join(f"{number}-{number}" for number in range(len(words)))
        row = {
            "src_lang": "eng_Latn",
            "tgt_lang": "eng_Latn",
            "src_tokens": words,
            "tgt_tokens": words,
        }
        rows.append(row | {"alignment": links})
    return rows


def token_words(encoder, tokenizer, words, lang):
    """States (layers, tokens, hidden) of the words' tokens, and the word of each token."""
    ids = tokenizer([" ".join(words)], lang=lang, return_tensors="pt")["input_ids"]
    first = ids[0].tolist().index(tokenizer.sep_token_id) + 1
    with torch.no_grad():
        hidden_states = encoder(ids, output_hidden_states=True).hidden_states
    tokens_per_word = [len(tokenizer.text_ids([word])[0]) for word in words]
    states = torch.stack(hidden_states)[:, 0, first:-1]
    return states.double().numpy(), np.repeat(np.arange(len(words)), tokens_per_word)


def test_error_rate_of_a_pair_step_by_step(encoder, toy_tokenizer):
    """A word of several tokens is among them."""
    source = ["one", "red", "catbird", "sleeps"]
    target = ["un", "chat", "oiseau", "rouge", "dort"]
    row = {
        "src_lang": "eng_Latn",
        "tgt_lang": "fra_Latn",
        "src_tokens": source,
        "tgt_tokens": target,
    }
    x, source_words = token_words(encoder, toy_tokenizer, source, "eng_Latn")
    y, target_words = token_words(encoder, toy_tokenizer, target, "fra_Latn")
    assert len(source_words) > len(source)

    table = evaluate_alignment(encoder, toy_tokenizer, [row | {"alignment": "0-0 1-3 2-1 2-2 3-4"}])

    # Links of tokens become links of words, and the rate follows from the printed formula.
    sure = {(0, 0), (1, 3), (2, 1), (2, 2), (3, 4)}
    error_rates = [row["aer"] for row in table.rows if row["method"] == "argmax"]
    assert len(error_rates) == len(x)
    for layer, error_rate in enumerate(error_rates):
        token_links = mutual(token_similarity(x[layer], y[layer]).tolist())
        links = {(source_words[i], target_words[j]) for i, j in token_links}
        assert error_rate == pytest.approx(1 - 2 * len(links & sure) / (len(links) + len(sure)))


@pytest.fixture
def rows_with_a_long_one(rows) -> list[dict]:
    rows[1]["tgt_tokens"] = rows[1]["tgt_tokens"] * 20
    return rows


def test_a_long_pair_is_refused(encoder, toy_tokenizer, rows_with_a_long_one):
    with pytest.raises(ValueError, match=r"row 2 \(eng_Latn-eng_Latn\), tgt_tokens has \d+ tokens"):
        evaluate_alignment(encoder, toy_tokenizer, rows_with_a_long_one, layers=[0])


def test_skipped_pairs_are_counted(encoder, toy_tokenizer, rows_with_a_long_one):
    table = evaluate_alignment(
        encoder, toy_tokenizer, rows_with_a_long_one, layers=[0], on_long="skip"
    )

    assert table.notes["skipped_too_long"] == 1
    assert table.rows[0]["sentences"] == 5


def test_long_pairs_alone_are_refused(encoder, toy_tokenizer, rows_with_a_long_one):
    with pytest.raises(ValueError, match="all 1 pairs are longer"):
        evaluate_alignment(
            encoder, toy_tokenizer, rows_with_a_long_one[1:2], layers=[0], on_long="skip"
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"alignment": "0-0 7-1"},
            r"row 1 \(eng_Latn-eng_Latn\): link 7-1 lies outside sentences of 5 and 5 words",
        ),
        ({"possible": "0_0"}, "'0_0' is not a link"),
        (
            {"src_tokens": ["a", ""]},
            r"row 1 \(eng_Latn-eng_Latn\), src_tokens: word 1 \(from 0\) is ''",
        ),
        ({"alignment": ""}, "language pair eng_Latn-eng_Latn has no sure links in 1 sentences"),
    ],
)
def test_bad_rows(encoder, toy_tokenizer, rows, change, message):
    with pytest.raises(ValueError, match=message):
        evaluate_alignment(encoder, toy_tokenizer, [rows[0] | change], layers=[0])


@pytest.fixture
def parquet(rows, tmp_path):
    file = tmp_path / "links.parquet"
    Dataset.from_list(rows).add_column("split", ["train", "dev"] * 3).to_parquet(file)
    return file


def test_a_file_is_read_whole(parquet):
    assert len(load_alignment(parquet)) == 6


def test_the_first_rows_of_a_split_are_read(parquet, rows):
    first, second = load_alignment(parquet, split="dev", limit=2)

    assert first.source == " ".join(rows[1]["src_tokens"])
    assert second.source == " ".join(rows[3]["src_tokens"])
    assert first.sure == parse_links(rows[1]["alignment"], 5, 5)


def test_a_split_without_rows_is_refused(parquet):
    with pytest.raises(ValueError, match="no rows of split 'test'"):
        load_alignment(parquet, split="test")


def test_a_bad_line_is_named(rows, tmp_path):
    file = tmp_path / "links.jsonl"
    rows[1]["alignment"] = "9-0"
    file.write_text("\n".join(map(json.dumps, rows)))

    with pytest.raises(ValueError, match=r"links.jsonl:2 \(eng_Latn-eng_Latn\): link 9-0"):
        load_alignment(file)


def test_a_missing_column_is_named(tmp_path):
    file = tmp_path / "links.jsonl"
    file.write_text('{"src_tokens": ["a"], "tgt_tokens": ["b"]}\n')

    with pytest.raises(ValueError, match="has no column alignment; found: src_tokens, tgt_tokens"):
        load_alignment(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file .*nowhere"):
        load_alignment(tmp_path / "nowhere.parquet")


def test_command(answer, parquet, toy, toy_tokenizer, tmp_path):
    toy.make_model(toy_tokenizer).save_pretrained(tmp_path / "model")
    toy_tokenizer.save_pretrained(tmp_path / "model")

    report = answer("--model", tmp_path / "model", "--data", parquet, "--layers", 0)

    assert report["aer_by_layer"]["argmax"] == [{"layer": 0, "mean": 0.0, "eng_Latn-eng_Latn": 0.0}]
