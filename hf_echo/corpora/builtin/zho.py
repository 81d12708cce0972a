"""Chinese: measure words, 两, 了 没有 不 会 for tense and polarity, resultative verbs, 那 for the definite.

The plain verb has no tense: 了 marks a past act, 会 the future, and 以前 ("formerly") the past of states.
"""

from __future__ import annotations

from .grammar import Meaning

NUMBERS = "零 一 两 三 四 五 六 七 八 九 十 十一 十二".split()
# measure word, noun
NOUNS = {
    "apple": ("个", "苹果"),
    "egg": ("个", "鸡蛋"),
    "cat": ("只", "猫"),
    "dog": ("条", "狗"),
    "horse": ("匹", "马"),
    "book": ("本", "书"),
    "letter": ("封", "信"),
    "cup": ("个", "杯子"),
    "bag": ("个", "包"),
    "key": ("把", "钥匙"),
    "hat": ("顶", "帽子"),
    "shirt": ("件", "衬衫"),
    "ring": ("枚", "戒指"),
    "box": ("个", "盒子"),
    "table": ("张", "桌子"),
    "chair": ("把", "椅子"),
    "lamp": ("盏", "灯"),
    "bicycle": ("辆", "自行车"),
    "car": ("辆", "汽车"),
    "house": ("栋", "房子"),
}
# before a noun, as a predicate
ADJECTIVES = {
    "big": ("大", "大"),
    "small": ("小", "小"),
    "old": ("旧", "旧"),
    "new": ("新", "新"),
    "cheap": ("便宜的", "便宜"),
    "expensive": ("昂贵的", "贵"),
    "clean": ("干净的", "干净"),
    "dirty": ("脏", "脏"),
    "heavy": ("沉重的", "重"),
    "light": ("轻便的", "轻"),
    "black": ("黑", "黑色的"),
    "white": ("白", "白色的"),
    "happy": ("", "高兴"),
    "sad": ("", "难过"),
    "busy": ("", "忙"),
    "free": ("", "空闲"),
    "angry": ("", "生气"),
    "calm": ("", "平静"),
}
PERSONS = {
    "Anna": "安娜",
    "Maria": "玛丽亚",
    "Elena": "埃琳娜",
    "Peter": "彼得",
    "David": "大卫",
    "Martin": "马丁",
    "doctor": "医生",
    "nurse": "护士",
    "teacher": "老师",
    "farmer": "农民",
    "boy": "男孩",
    "girl": "女孩",
    "king": "国王",
    "queen": "女王",
    "grandmother": "奶奶",
    "grandfather": "爷爷",
    "children": "孩子们",
    "parents": "父母",
}
# a result cannot be denied with 不 in front (*不找到), only with 不 inside
UNABLE = {"find": "找不到", "see": "看不见"}
VERBS = {
    "buy": "买",
    "sell": "卖",
    "find": "找到",
    "lose": "丢",
    "see": "看见",
    "steal": "偷",
    "draw": "画",
    "wash": "洗",
    "repair": "修",
    "hide": "藏",
    "burn": "烧",
    "write": "写",
    "eat": "吃",
    "give": "给",
    "send": "寄给",
}
# in it, to it
PLACES = {
    "market": ("市场上", "市场"),
    "garden": ("花园里", "花园"),
    "school": ("学校里", "学校"),
    "station": ("车站里", "车站"),
    "park": ("公园里", "公园"),
    "kitchen": ("厨房里", "厨房"),
    "library": ("图书馆里", "图书馆"),
    "village": ("村子里", "村子"),
}
TIMES = {
    "morning": "早上",
    "evening": "傍晚",
    "night": "夜里",
    "Monday": "星期一",
    "Friday": "星期五",
    "Sunday": "星期天",
    "summer": "夏天",
    "winter": "冬天",
}


def described(m: Meaning) -> str:
    return (ADJECTIVES[m.adjective][0] if m.adjective else "") + NOUNS[m.noun][1]


def things(m: Meaning) -> str:
    """三本旧书; denied: 那三本旧书, 那本旧书; none: 旧书."""
    if m.number == 0:
        return described(m)
    number = "" if m.number == 1 and m.negated else NUMBERS[m.number]
    return ("那" if m.negated else "") + number + NOUNS[m.noun][0] + described(m)


def before(m: Meaning) -> str:
    """What stands before the verb of an act: 没有, 不, 会, 不会."""
    if m.negated:
        return {"past": "没有", "present": "不", "future": "不会"}[m.tense]
    return "会" if m.tense == "future" else ""


def done(m: Meaning) -> str:
    return "了" if m.tense == "past" and not m.negated else ""


def be(m: Meaning) -> str:
    """很大, 不大, 会很大, 不会大 (不会很大 would be "not very big"); colours with 是: 是黑色的."""
    word = ADJECTIVES[m.adjective][1]
    degree = "是" if word.endswith("的") else "" if m.negated else "很"
    return ("不" if m.negated else "") + ("会" if m.tense == "future" else "") + degree + word


def render(m: Meaning) -> str:
    when = TIMES.get(m.time, "")
    inside, to = PLACES[m.place] if m.place else ("", "")
    where = f"在{inside}" if inside else ""
    subject, other = PERSONS.get(m.subject, ""), PERSONS.get(m.other, "")
    formerly = "以前" if m.tense == "past" else ""
    if m.template == "act":
        unable = m.verb in UNABLE and m.tense == "present" and m.negated
        act = where + UNABLE[m.verb] if unable else before(m) + where + VERBS[m.verb] + done(m)
        line = subject + when + act + things(m)
    elif m.template == "give":
        if m.verb == "show":  # 给医生看三本书
            line = f"{subject}{before(m)}给{other}看{done(m)}{things(m)}"
        else:
            line = subject + before(m) + VERBS[m.verb] + done(m) + other + things(m)
    elif m.template == "like":
        no = ("不" if m.negated else "") + ("会" if m.tense == "future" else "")
        line = f"{subject}{formerly}{no}喜欢{other}那{NOUNS[m.noun][0]}{described(m)}"
    elif m.template == "go":
        together = f"和{other}一起" if other else ""
        line = f"{subject}{when}{before(m)}{together}去{done(m)}{to}"
    elif m.template == "quality":
        line = f"{inside}的{NOUNS[m.noun][1]}{formerly}{be(m)}"
    elif m.template == "state":
        line = subject + formerly + when + where + be(m)
    else:
        will = "会" if m.tense == "future" else ""
        there = ("不会有" if will else "没有") if m.negated else f"{will}有"
        line = formerly + when + inside + there + things(m)
    return line + "。"
