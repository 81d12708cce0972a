"""Japanese: counters, polite verb forms, i- and na-adjectives, particles, いる (animals) and ある (things).

The plain polite form is present and future alike, so the future is written with でしょう ("will, I expect").
"""

from __future__ import annotations

from .grammar import ANIMALS, Meaning

NUMBERS = "零 一 二 三 四 五 六 七 八 九 十 十一 十二".split()
# counter, noun
NOUNS = {
    "apple": ("個", "りんご"),
    "egg": ("個", "卵"),
    "cat": ("匹", "猫"),
    "dog": ("匹", "犬"),
    "horse": ("頭", "馬"),
    "book": ("冊", "本"),
    "letter": ("通", "手紙"),
    "cup": ("個", "カップ"),
    "bag": ("個", "かばん"),
    "key": ("本", "鍵"),
    "hat": ("個", "帽子"),
    "shirt": ("枚", "シャツ"),
    "ring": ("個", "指輪"),
    "box": ("個", "箱"),
    "table": ("台", "テーブル"),
    "chair": ("脚", "椅子"),
    "lamp": ("個", "ランプ"),
    "bicycle": ("台", "自転車"),
    "car": ("台", "車"),
    "house": ("軒", "家"),
}
# i-adjectives end in い, na-adjectives in な; "clean" is きれいな
ADJECTIVES = {
    "big": "大きい",
    "small": "小さい",
    "old": "古い",
    "new": "新しい",
    "cheap": "安い",
    "expensive": "高い",
    "clean": "きれいな",
    "dirty": "汚い",
    "heavy": "重い",
    "light": "軽い",
    "black": "黒い",
    "white": "白い",
    "happy": "幸せな",
    "sad": "悲しんでいる",
    "busy": "忙しい",
    "free": "暇な",
    "angry": "怒っている",
    "calm": "落ち着いている",
}
PERSONS = {
    "Anna": "アンナ",
    "Maria": "マリア",
    "Elena": "エレナ",
    "Peter": "ピーター",
    "David": "デイビッド",
    "Martin": "マーティン",
    "doctor": "医者",
    "nurse": "看護師",
    "teacher": "先生",
    "farmer": "農夫",
    "boy": "男の子",
    "girl": "女の子",
    "king": "王様",
    "queen": "女王",
    "grandmother": "おばあさん",
    "grandfather": "おじいさん",
    "children": "子供たち",
    "parents": "両親",
}
# stem before ます, dictionary form, stem before ない
VERBS = {
    "buy": "買い 買う 買わ",
    "sell": "売り 売る 売ら",
    "find": "見つけ 見つける 見つけ",
    "lose": "なくし なくす なくさ",
    "see": "見 見る 見",
    "steal": "盗み 盗む 盗ま",
    "draw": "描き 描く 描か",
    "wash": "洗い 洗う 洗わ",
    "repair": "直し 直す 直さ",
    "hide": "隠し 隠す 隠さ",
    "burn": "燃やし 燃やす 燃やさ",
    "write": "書き 書く 書か",
    "eat": "食べ 食べる 食べ",
    "give": "あげ あげる あげ",
    "send": "送り 送る 送ら",
    "show": "見せ 見せる 見せ",
    "go": "行き 行く 行か",
    "live": "い いる い",
    "exist": "あり ある ",  # its denial is ない itself
}
PLACES = {
    "market": "市場",
    "garden": "庭",
    "school": "学校",
    "station": "駅",
    "park": "公園",
    "kitchen": "台所",
    "library": "図書館",
    "village": "村",
}
TIMES = {
    "morning": "朝、",
    "evening": "夕方、",
    "night": "夜、",
    "Monday": "月曜日に",
    "Friday": "金曜日に",
    "Sunday": "日曜日に",
    "summer": "夏に",
    "winter": "冬に",
}
_MASU = {
    ("past", False): "ました",
    ("past", True): "ませんでした",
    ("present", False): "ます",
    ("present", True): "ません",
}


def verb(key: str, m: Meaning) -> str:
    forms = VERBS[key].split(" ")
    if m.tense == "future":
        return f"{forms[2]}ないでしょう" if m.negated else f"{forms[1]}でしょう"
    return forms[0] + _MASU[m.tense, m.negated]


def be(m: Meaning, word: str) -> str:
    """i: 大きかったです; na: きれいでした; a lasting state: 怒っていました."""
    if word.endswith("ている") or word.endswith("でいる"):
        stem = word[:-1]
        if m.tense == "future":
            return f"{stem}ないでしょう" if m.negated else f"{word}でしょう"
        return stem + _MASU[m.tense, m.negated]
    if word.endswith("な"):
        endings = {
            "past": ("でした", "ではありませんでした"),
            "present": ("です", "ではありません"),
            "future": ("でしょう", "ではないでしょう"),
        }
        return word[:-1] + endings[m.tense][m.negated]
    endings = {
        "past": ("かったです", "くなかったです"),
        "present": ("いです", "くないです"),
        "future": ("いでしょう", "くないでしょう"),
    }
    return word[:-1] + endings[m.tense][m.negated]


def described(m: Meaning) -> str:
    return (ADJECTIVES[m.adjective] if m.adjective else "") + NOUNS[m.noun][1]


def things(m: Meaning) -> str:
    """三冊の古い本, one without a counter; denied (definite): その三冊の古い本."""
    the = "その" if m.negated and m.number else ""
    count = f"{NUMBERS[m.number]}{NOUNS[m.noun][0]}の" if m.number > 1 else ""
    return the + count + described(m)


def render(m: Meaning) -> str:
    when, place = TIMES.get(m.time, ""), PLACES.get(m.place, "")
    topic = f"{PERSONS[m.subject]}は" if m.subject else ""
    other = PERSONS.get(m.other, "")
    if m.template == "act":
        line = topic + when + (f"{place}で" if place else "") + things(m) + "を" + verb(m.verb, m)
    elif m.template == "give":
        line = f"{topic}{other}に{things(m)}を{verb(m.verb, m)}"
    elif m.template == "like":
        if m.tense == "future":  # "will come to like": 好きでしょう alone is a guess about now
            loved = "好きにならないでしょう" if m.negated else "好きになるでしょう"
        else:
            loved = be(m, "好きな")
        line = f"{topic}{other}の{described(m)}が{loved}"
    elif m.template == "go":
        line = topic + when + (f"{other}と" if other else "") + f"{place}へ{verb('go', m)}"
    elif m.template == "quality":
        line = f"{place}の{NOUNS[m.noun][1]}は{be(m, ADJECTIVES[m.adjective])}"
    elif m.template == "state":
        line = topic + when + (f"{place}で" if place else "") + be(m, ADJECTIVES[m.adjective])
    else:
        there = verb("live" if m.noun in ANIMALS else "exist", m)
        line = f"{when}{place}に{things(m)}{'は' if m.negated else 'が'}{there}"
    return line + "。"
