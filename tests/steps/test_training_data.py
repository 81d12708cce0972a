"""A training mix and dev sets from a folder of corpora:
what is held out, how rows are drawn, the same again."""

import hashlib
import json

import pandas as pd
import pytest
import yaml

from hf_echo.data import load_nway, load_parallel
from hf_echo.steps.run import run_operation

ENG = "eng_Latn"
DEU = "deu_Latn"
FRA = "fra_Latn"
PAIRS = "src_lang src tgt_lang tgt"


def percent_of(text: str) -> int:
    """The lot of a text: everyday pairs below dev_percent are held out."""
    digest = hashlib.sha256(text.strip().lower().encode()).digest()
    return int.from_bytes(digest[:4], "little") % 100


def write(folder, name: str, columns: str, rows: list[tuple]) -> None:
    pd.DataFrame(rows, columns=columns.split()).to_parquet(folder / f"{name}.parquet")


def make_corpora(folder):
    """1,000 meanings in French and German, 50 pairs without English, news in documents of five,
    verses with splits."""
    folder.mkdir()
    pairs = []
    for number in range(1000):
        for lang in (FRA, DEU):
            pairs.append((ENG, f"Tom saw dog number {number}.", lang, f"{lang} {number}."))
    pairs += [
        (ENG, "Is it long?", "tlh_Latn", "tlh"),  # a language that nobody asked for
        (ENG, "x", FRA, " "),
        (ENG, "STOP  here", FRA, "Arrêtez ici."),
        (ENG, "menu", FRA, "Menu"),
    ]
    pairs += [(DEU, f"{DEU} {number}.", FRA, f"{FRA} {number}.") for number in range(50)]
    write(folder, "pairs", PAIRS, pairs)
    news = []
    for number in range(20):
        english = "Stop here!" if number == 19 else f"{ENG} news {number}."
        document = f"d{number // 5}"
        news.append((number, document, ENG, english))
        news.append((number, document, FRA, f"{FRA} news {number}."))
    write(folder, "news", "id document lang text", news)
    verses = []
    for number, part in enumerate(["dev"] * 3 + ["train"] * 6):
        for lang in (ENG, DEU):
            verses.append((f"v{number}", lang, f"{lang} verse {number}.", part))
    write(folder, "verses", "verse_id lang text split", verses)
    return folder


@pytest.fixture
def corpora(tmp_path):
    return make_corpora(tmp_path / "corpora")


TABLES = {
    "pairs.parquet": {"dev": "everyday", "dev_percent": 10, "without_english": 0},
    "news.parquet": {"id": "id", "dev": "news", "dev_documents": 1, "weight": 3},
    "verses.parquet": {"id": "verse_id", "split": "train", "dev": "verses", "dev_split": "dev"},
}


def run(corpora, out, **fields) -> dict[str, int]:
    """Run the step `collect_data` into `out`: rows of each file."""
    recipe = corpora.parent / f"{out.name}.yaml"
    values = {
        "operation": "collect_data",
        "output_dir": str(out),
        "languages": [FRA, DEU],
        "tables": TABLES,
    }
    recipe.write_text(yaml.safe_dump(values | fields))
    report = run_operation(recipe, {"corpora": str(corpora)})
    return {name: rows for name, rows in report.items() if name.startswith(("train", "dev"))}


def read(folder, name: str) -> pd.DataFrame:
    """A file of the step, through this package's readers."""
    reader = load_parallel if name.startswith("train") else load_nway
    return reader(folder / f"{name}.parquet", split=None).to_pandas()


@pytest.fixture(scope="module")
def mix(tmp_path_factory):
    """(folder of the mix, rows of each file by the report)"""
    place = tmp_path_factory.mktemp("mix")
    corpora = make_corpora(place / "corpora")
    return place / "out", run(corpora, place / "out")


def test_everyday_sentences_are_held_out_by_lot(mix):
    folder, _ = mix
    everyday = read(folder, "dev_everyday")
    english = set(everyday.text[everyday.lang == ENG])
    numbers = [f"Tom saw dog number {number}." for number in range(1000)]
    assert english == {text for text in numbers if percent_of(text) < 10}
    assert len(english) > 50


def test_the_last_document_of_the_news_is_held_out(mix):
    folder, _ = mix
    assert set(read(folder, "dev_news").id) == {str(number) for number in range(15, 20)}


def test_verses_are_held_out_by_their_split(mix):
    folder, _ = mix
    assert set(read(folder, "dev_verses").id) == {"v0", "v1", "v2"}


def test_the_report_counts_the_rows_of_each_file(mix):
    folder, rows = mix
    names = ["train", "train_decoder", "dev_everyday", "dev_news", "dev_verses"]
    assert rows == {name: len(read(folder, name)) for name in names}


def test_data_have_no_card_of_a_model(mix):
    folder, _ = mix
    assert not (folder / "README.md").exists()


@pytest.mark.parametrize("dev", ["dev_everyday", "dev_news", "dev_verses"])
def test_no_dev_text_is_trained_on(mix, dev):
    folder, _ = mix
    train = read(folder, "train")
    assert not {*train.source, *train.target} & set(read(folder, dev).text)


@pytest.mark.parametrize("text", ["STOP  here", "menu", "x", "tlh"])
def test_other_texts_are_left_out(mix, text):
    """A dev text in other case and punctuation, a text equal to its translation, an empty one,
    another language."""
    folder, _ = mix
    train = read(folder, "train")
    assert text not in {*train.source, *train.target}


def test_targets_are_english(mix):
    folder, _ = mix
    assert set(read(folder, "train").target_lang) == {ENG}


@pytest.mark.parametrize(("source", "times"), [("fra_Latn news 3.", 3), ("deu_Latn verse 5.", 1)])
def test_a_row_comes_as_often_as_its_weight(mix, source, times):
    folder, _ = mix
    assert list(read(folder, "train").source).count(source) == times


@pytest.fixture
def verses_of_two_files(corpora, tmp_path):
    """The mix of verses in two languages without German, whose English is in another file."""
    verses = []
    for number in range(9):
        for lang in (FRA, DEU):
            verses.append((f"v{number}", lang, f"{lang} {number}"))
    write(corpora, "more", "verse_id lang text", verses)
    options = {"id": "verse_id", "english": "verses.parquet", "leave_out": [DEU]}
    run(corpora, tmp_path / "out", tables={"more.parquet": options})
    return read(tmp_path / "out", "train")


def test_the_english_of_another_file(verses_of_two_files):
    pairs = sorted(zip(verses_of_two_files.source, verses_of_two_files.target, strict=True))
    assert pairs == [(f"{FRA} {number}", f"{ENG} verse {number}.") for number in range(9)]


def test_a_language_can_be_left_out_of_a_file(verses_of_two_files):
    assert set(verses_of_two_files.source_lang) == {FRA}


@pytest.fixture
def of_languages(corpora, tmp_path):
    """of_languages(power, most) -> the mix of 40 Lithuanian rows beside 1,034 of other
    languages."""
    rows = [(ENG, f"A {number}.", "lit_Latn", f"lit {number}.") for number in range(40)]
    write(corpora, "small", PAIRS, rows)
    tables = {
        "pairs.parquet": {"without_english": 0.5},
        "verses.parquet": {"id": "verse_id"},
        "small.parquet": {},
    }

    def collect(power: float, most: int) -> pd.DataFrame:
        languages = [FRA, DEU, "lit_Latn"]
        run(corpora, tmp_path / "out", tables=tables, languages=languages, power=power, most=most)
        return read(tmp_path / "out", "train")

    return collect


def test_small_languages_come_at_most_so_often(of_languages):
    train = of_languages(power=0.5, most=5)
    assert (train.source_lang == "lit_Latn").sum() == 40 * 5


def test_small_languages_come_as_often_as_the_power_says(of_languages):
    train = of_languages(power=0.75, most=9)
    expected = 40 * (1034 / 40) ** 0.25
    assert (train.source_lang == "lit_Latn").sum() == pytest.approx(expected, abs=9)


def test_a_share_of_the_pairs_without_english_is_drawn(of_languages):
    train = of_languages(power=0.5, most=5)
    assert 10 < (train.target_lang != ENG).sum() < 40  # half of 50


@pytest.fixture
def decoder_rows(corpora, tmp_path):
    """decoder_rows(**fields) -> rows of the decoder"""

    def collect(**fields) -> pd.DataFrame:
        run(corpora, tmp_path / "out", **fields)
        return read(tmp_path / "out", "train_decoder")

    return collect


def test_a_sentence_of_the_decoder_has_as_many_sources_as_asked_for(decoder_rows):
    """Whatever its weight in the mix is."""
    tables = {"pairs.parquet": {"weight": 4}}
    rows = decoder_rows(tables=tables, decoder_sources=2, decoder_itself=0)
    assert set(rows.target.value_counts()) == {2}
    assert rows.source.is_unique


@pytest.fixture
def with_itself(decoder_rows):
    """(rows of a sentence from itself, rows of a sentence from a translation)"""
    rows = decoder_rows(decoder_sources=1, decoder_itself=0.5)
    is_itself = rows.source == rows.target
    return rows[is_itself], rows[~is_itself]


def test_a_share_of_the_decoders_sentences_comes_from_itself(with_itself):
    from_itself, from_translations = with_itself
    assert 0.35 < len(from_itself) / len(from_translations) < 0.65
    assert set(from_itself.source_lang) == {ENG}
    assert from_translations.target.is_unique


def test_the_decoder_writes_sentences_of_two_words_or_more(with_itself):
    _, from_translations = with_itself
    assert all(len(text.split()) > 1 for text in from_translations.target)


@pytest.fixture(scope="module")
def noisy(mix):
    """(the mix, the mix with noise in 30 % of the rows)"""
    folder, _ = mix
    out = folder.with_name("noisy")
    run(folder.with_name("corpora"), out, noise=0.3)
    return read(folder, "train"), read(out, "train")


@pytest.mark.parametrize("side", ["source", "target"])
def test_noise_changes_half_of_its_rows_on_each_side(noisy, side):
    clean, changed = noisy
    assert 0.1 < (clean[side] != changed[side]).mean() < 0.2


def test_noise_changes_no_language(noisy):
    clean, changed = noisy
    assert clean.target_lang.equals(changed.target_lang)


def test_a_quarter_of_the_noise_is_in_capitals(noisy):
    clean, changed = noisy
    assert 0.02 < (changed.target == clean.target.str.upper()).mean() < 0.08


@pytest.mark.parametrize("name", ["train", "train_decoder", "dev_everyday"])
def test_the_same_recipe_gives_the_same_rows(corpora, tmp_path, name):
    run(corpora, tmp_path / "a", rows=300)
    run(corpora, tmp_path / "b", rows=300)
    pd.testing.assert_frame_equal(read(tmp_path / "a", name), read(tmp_path / "b", name))


def test_a_number_of_rows_can_be_drawn(corpora, tmp_path):
    assert run(corpora, tmp_path / "out", rows=300)["train"] == 300


def test_english_need_not_be_named_among_the_languages(corpora, tmp_path):
    rows = run(corpora, tmp_path / "a")
    assert run(corpora, tmp_path / "b", languages=["French", "English", "de"]) == rows


def test_a_finished_step_reads_nothing_again(corpora, tmp_path):
    rows = run(corpora, tmp_path / "out")
    file = tmp_path / "out" / "train.parquet"
    file.write_bytes(b"kept")

    assert run(corpora, tmp_path / "out") == rows

    assert file.read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"tables": {"none.parquet": {}}}, FileNotFoundError, "holds no none.parquet"),
        ({"tables": {"news.parquet": {}}}, ValueError, "news.parquet has no column 'src'"),
        ({"tables": {"pairs.parquet": {"dev_percent": 3}}}, ValueError, "dev_percent needs dev"),
        (
            {"tables": {"pairs.parquet": {"weigth": 3}}},
            ValueError,
            "tables: pairs.parquet: unknown field 'weigth'",
        ),
        ({"languages": ["zul_Latn"]}, ValueError, "no row is left"),
        (
            {"languages": ["zh"]},
            ValueError,
            "language 'zh' is ambiguous: give zho_Hans or zho_Hant",
        ),
    ],
)
def test_what_cannot_be_collected_is_refused(corpora, tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        run(corpora, tmp_path / "out", **changes)


@pytest.fixture
def compared(corpora, tmp_path):
    """A mix whose corpora have a test split, which holds a sentence of the pairs in other
    punctuation."""
    (corpora / "test").mkdir()
    tests = [(ENG, "Tom saw dog number 7!", DEU, "nur hier"), (ENG, "Nobody saw it.", DEU, "auch")]
    write(corpora / "test", "news", PAIRS, tests)
    run(corpora, tmp_path / "out", tables={"pairs.parquet": {}})
    return tmp_path / "out"


def test_the_mix_is_compared_with_test_splits(compared):
    report = json.loads((compared / "leaks.json").read_text())
    assert report["test_texts"] == 4
    assert report["leaks"] == 0


def test_a_test_sentence_is_in_no_training_row(compared):
    targets = set(read(compared, "train").target)
    assert "Tom saw dog number 7." not in targets
    assert "Tom saw dog number 8." in targets


def test_corpora_without_test_splits_are_compared_with_nothing(corpora, tmp_path):
    run(corpora, tmp_path / "out")
    assert not (tmp_path / "out" / "leaks.json").exists()


def test_an_optional_table_may_be_missing(corpora, tmp_path):
    tables = {"pairs.parquet": {}, "none.parquet": {"optional": True}}
    rows = run(corpora, tmp_path / "out", tables=tables)
    assert rows["train"] > 0
