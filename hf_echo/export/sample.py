"""Twelve languages in seven scripts, to measure what 8 bits cost: the Universal Declaration of Human Rights, Article 1.

The translations are those of the United Nations, in the public domain.
"""

SAMPLE: dict[str, tuple[str, ...]] = {
    "eng_Latn": (
        "All human beings are born free and equal in dignity and rights.",
        "They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.",
    ),
    "fra_Latn": (
        "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
        "Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de "
        "fraternité.",
    ),
    "deu_Latn": (
        "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
        "Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    ),
    "spa_Latn": (
        "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
        "Dotados como están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.",
    ),
    "tur_Latn": (
        "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.",
        "Akıl ve vicdana sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.",
    ),
    "swh_Latn": (
        "Watu wote wamezaliwa huru, hadhi na haki zao ni sawa.",
        "Wote wamejaliwa akili na dhamiri, hivyo yapasa watendeane kindugu.",
    ),
    "rus_Cyrl": (
        "Все люди рождаются свободными и равными в своем достоинстве и правах.",
        "Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.",
    ),
    "ell_Grek": (
        "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
        "Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα "
        "αδελφοσύνης.",
    ),
    "arb_Arab": (
        "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
        "وقد وهبوا عقلا وضميرا وعليهم أن يعامل بعضهم بعضا بروح الإخاء.",
    ),
    "hin_Deva": (
        "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
        "उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।",
    ),
    "zho_Hans": (
        "人人生而自由，在尊严和权利上一律平等。",
        "他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    ),
    "jpn_Jpan": (
        "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
        "人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。",
    ),
}
