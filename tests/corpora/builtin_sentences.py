"""Meanings that touch every rule of the grammar, and their sentences, written by hand in each language."""

from __future__ import annotations

from hf_echo.corpora.builtin import Meaning


def act(subject, verb, number, noun, adjective=None, tense="past", negated=False, place=None, time=None):
    return Meaning("act", tense, negated, subject, verb, number, adjective, noun, None, place, time)


def give(subject, verb, number, noun, other, adjective=None, tense="past", negated=False):
    return Meaning("give", tense, negated, subject, verb, number, adjective, noun, other)


def like(subject, other, adjective, noun, tense="present", negated=False):
    return Meaning("like", tense, negated, subject, None, None, adjective, noun, other)


def go(subject, place, tense="past", negated=False, other=None, time=None):
    return Meaning("go", tense, negated, subject, other=other, place=place, time=time)


def quality(noun, place, adjective, tense="past", negated=False):
    return Meaning("quality", tense, negated, adjective=adjective, noun=noun, place=place)


def state(subject, adjective, tense="past", negated=False, place=None, time=None):
    return Meaning("state", tense, negated, subject, adjective=adjective, place=place, time=time)


def exist(number, noun, place, adjective=None, tense="past", time=None):
    return Meaning("exist", tense, number == 0, None, None, number, adjective, noun, None, place, time)


# one list of meanings that between them touch every template, tense, polarity, gender and number ...
APPLES = act("Anna", "buy", 3, "apple", "big", place="market")


OLD_LAMP = act("king", "sell", 1, "lamp", "old", "present", time="Monday")


NOT_EGGS = act("children", "eat", 8, "egg", "clean", "future", True, place="kitchen")


CATS = act("nurse", "see", 2, "cat", "black", time="night")


NOT_DOG = act("boy", "find", 1, "dog", None, "past", True, place="park")


WRITES = act("parents", "write", 12, "letter", None, "present", time="evening")


RINGS = give("doctor", "give", 5, "ring", "Anna", "expensive")


NOT_BOOKS = give("girl", "show", 4, "book", "children", "new", "present", True)


SEND = give("Elena", "send", 1, "key", "teacher", "small", "future")


LIKES = like("nurse", "Anna", "old", "house")


NOT_LIKED = like("children", "farmer", "white", "shirt", "past", True)


WENT = go("Maria", "school", other="doctor")


NOT_GO = go("parents", "village", "present", True, time="winter")


WILL_GO = go("Peter", "kitchen", "future", other="children")


TABLE = quality("table", "kitchen", "clean")


NOT_CAR = quality("car", "garden", "expensive", "present", True)


BOX = quality("box", "library", "heavy", "future")


HAPPY = state("grandmother", "happy", place="station")


NOT_ANGRY = state("children", "angry", "present", True, time="Sunday")


FREE = state("David", "free", "future", time="morning")


CHAIRS = exist(4, "chair", "garden", "white", time="summer")


A_HORSE = exist(1, "horse", "village", "small", "present")


NO_BAGS = exist(0, "bag", "station", "big", "past")


NO_EGGS = exist(0, "egg", "kitchen", None, "future")


MEANINGS = [APPLES, OLD_LAMP, NOT_EGGS, CATS, NOT_DOG, WRITES, RINGS, NOT_BOOKS, SEND, LIKES, NOT_LIKED, WENT]
MEANINGS += [NOT_GO, WILL_GO, TABLE, NOT_CAR, BOX, HAPPY, NOT_ANGRY, FREE, CHAIRS, A_HORSE, NO_BAGS, NO_EGGS]


# ... written by hand in each language, in that order
EXPECTED = {
    "eng_Latn": """
        Anna bought three big apples at the market.
        The king sells an old lamp on Monday.
        The children will not eat the eight clean eggs in the kitchen.
        The nurse saw two black cats at night.
        The boy did not find the dog in the park.
        The parents write twelve letters in the evening.
        The doctor gave five expensive rings to Anna.
        The girl does not show the four new books to the children.
        Elena will send a small key to the teacher.
        The nurse likes Anna's old house.
        The children did not like the farmer's white shirt.
        Maria went to school with the doctor.
        The parents do not go to the village in winter.
        Peter will go to the kitchen with the children.
        The table in the kitchen was clean.
        The car in the garden is not expensive.
        The box in the library will be heavy.
        The grandmother was happy at the station.
        The children are not angry on Sunday.
        David will be free in the morning.
        There were four white chairs in the garden in summer.
        There is a small horse in the village.
        There were no big bags at the station.
        There will be no eggs in the kitchen.""",
    "fra_Latn": """
        Anna a acheté trois grandes pommes au marché.
        Le roi vend une vieille lampe le lundi.
        Les enfants ne mangeront pas les huit œufs propres dans la cuisine.
        L'infirmière a vu deux chats noirs la nuit.
        Le garçon n'a pas trouvé le chien dans le parc.
        Les parents écrivent douze lettres le soir.
        Le médecin a donné cinq bagues chères à Anna.
        La fille ne montre pas les quatre nouveaux livres aux enfants.
        Elena enverra une petite clé au professeur.
        L'infirmière aime la vieille maison d'Anna.
        Les enfants n'aimaient pas la chemise blanche du fermier.
        Maria est allée à l'école avec le médecin.
        Les parents ne vont pas au village en hiver.
        Peter ira dans la cuisine avec les enfants.
        La table de la cuisine était propre.
        La voiture du jardin n'est pas chère.
        La boîte de la bibliothèque sera lourde.
        La grand-mère était heureuse à la gare.
        Les enfants ne sont pas fâchés le dimanche.
        David sera libre le matin.
        Il y avait quatre chaises blanches dans le jardin en été.
        Il y a un petit cheval au village.
        Il n'y avait pas de grands sacs à la gare.
        Il n'y aura pas d'œufs dans la cuisine.""",
    "deu_Latn": """
        Anna hat auf dem Markt drei große Äpfel gekauft.
        Der König verkauft am Montag eine alte Lampe.
        Die Kinder werden in der Küche die acht sauberen Eier nicht essen.
        Die Krankenschwester hat in der Nacht zwei schwarze Katzen gesehen.
        Der Junge hat im Park den Hund nicht gefunden.
        Die Eltern schreiben am Abend zwölf Briefe.
        Der Arzt hat Anna fünf teure Ringe gegeben.
        Das Mädchen zeigt den Kindern die vier neuen Bücher nicht.
        Elena wird dem Lehrer einen kleinen Schlüssel schicken.
        Die Krankenschwester mag Annas altes Haus.
        Die Kinder mochten das weiße Hemd des Bauern nicht.
        Maria ist mit dem Arzt zur Schule gegangen.
        Die Eltern gehen im Winter nicht ins Dorf.
        Peter wird mit den Kindern in die Küche gehen.
        Der Tisch in der Küche war sauber.
        Das Auto im Garten ist nicht teuer.
        Die Schachtel in der Bibliothek wird schwer sein.
        Die Großmutter war am Bahnhof glücklich.
        Die Kinder sind am Sonntag nicht wütend.
        David wird am Morgen frei sein.
        Es gab im Sommer im Garten vier weiße Stühle.
        Es gibt im Dorf ein kleines Pferd.
        Es gab am Bahnhof keine großen Taschen.
        Es wird in der Küche keine Eier geben.""",
    "spa_Latn": """
        Anna compró tres manzanas grandes en el mercado.
        El rey vende una lámpara vieja el lunes.
        Los niños no comerán los ocho huevos limpios en la cocina.
        La enfermera vio dos gatos negros por la noche.
        El chico no encontró el perro en el parque.
        Los padres escriben doce cartas por la tarde.
        El médico le dio cinco anillos caros a Anna.
        La chica no les muestra los cuatro libros nuevos a los niños.
        Elena le enviará una llave pequeña al profesor.
        A la enfermera le gusta la casa vieja de Anna.
        A los niños no les gustaba la camisa blanca del granjero.
        Maria fue a la escuela con el médico.
        Los padres no van al pueblo en invierno.
        Peter irá a la cocina con los niños.
        La mesa de la cocina estaba limpia.
        El coche del jardín no es caro.
        La caja de la biblioteca será pesada.
        La abuela estaba contenta en la estación.
        Los niños no están enfadados el domingo.
        David estará libre por la mañana.
        Había cuatro sillas blancas en el jardín en verano.
        Hay un caballo pequeño en el pueblo.
        No había bolsas grandes en la estación.
        No habrá huevos en la cocina.""",
    "ita_Latn": """
        Anna ha comprato tre mele grandi al mercato.
        Il re vende una lampada vecchia il lunedì.
        I bambini non mangeranno le otto uova pulite in cucina.
        L'infermiera ha visto due gatti neri di notte.
        Il ragazzo non ha trovato il cane nel parco.
        I genitori scrivono dodici lettere di sera.
        Il medico ha dato cinque anelli costosi ad Anna.
        La ragazza non mostra i quattro libri nuovi ai bambini.
        Elena manderà una chiave piccola al professore.
        All'infermiera piace la casa vecchia di Anna.
        Ai bambini non piaceva la camicia bianca del contadino.
        Maria è andata a scuola con il medico.
        I genitori non vanno al villaggio in inverno.
        Peter andrà in cucina con i bambini.
        Il tavolo della cucina era pulito.
        La macchina del giardino non è costosa.
        La scatola della biblioteca sarà pesante.
        La nonna era felice alla stazione.
        I bambini non sono arrabbiati la domenica.
        David sarà libero di mattina.
        C'erano quattro sedie bianche in giardino in estate.
        C'è un cavallo piccolo nel villaggio.
        Non c'erano borse grandi alla stazione.
        Non ci saranno uova in cucina.""",
    "tur_Latn": """
        Anna pazarda üç büyük elma satın aldı.
        Kral pazartesi günü eski bir lamba satıyor.
        Çocuklar mutfakta sekiz temiz yumurtayı yemeyecekler.
        Hemşire geceleyin iki siyah kedi gördü.
        Oğlan parkta köpeği bulmadı.
        Ebeveynler akşamleyin on iki mektup yazıyorlar.
        Doktor Anna'ya beş pahalı yüzük verdi.
        Kız çocuklara dört yeni kitabı göstermiyor.
        Elena öğretmene küçük bir anahtar gönderecek.
        Hemşire Anna'nın eski evini seviyor.
        Çocuklar çiftçinin beyaz gömleğini sevmediler.
        Maria doktorla okula gitti.
        Ebeveynler kışın köye gitmiyorlar.
        Peter çocuklarla mutfağa gidecek.
        Mutfaktaki masa temizdi.
        Bahçedeki araba pahalı değil.
        Kütüphanedeki kutu ağır olacak.
        Büyükanne istasyonda mutluydu.
        Çocuklar pazar günü kızgın değil.
        David sabahleyin müsait olacak.
        Bahçede yazın dört beyaz sandalye vardı.
        Köyde küçük bir at var.
        İstasyonda büyük çanta yoktu.
        Mutfakta yumurta olmayacak.""",
    "rus_Cyrl": """
        Анна купила три больших яблока на рынке.
        Король продаёт старую лампу в понедельник.
        Дети не съедят восемь чистых яиц на кухне.
        Медсестра увидела двух чёрных кошек ночью.
        Мальчик не нашёл собаку в парке.
        Родители пишут двенадцать писем вечером.
        Врач дал Анне пять дорогих колец.
        Девочка не показывает детям четыре новые книги.
        Елена отправит учителю маленький ключ.
        Медсестре нравится старый дом Анны.
        Детям не нравилась белая рубашка фермера.
        Мария пошла в школу с врачом.
        Родители не идут в деревню зимой.
        Пётр пойдёт на кухню с детьми.
        Стол на кухне был чистым.
        Машина в саду не дорогая.
        Коробка в библиотеке будет тяжёлой.
        Бабушка была счастлива на вокзале.
        Дети не сердиты в воскресенье.
        Давид будет свободен утром.
        В саду летом было четыре белых стула.
        В деревне есть маленькая лошадь.
        На вокзале не было больших сумок.
        На кухне не будет яиц.""",
    "ell_Grek": """
        Η Άννα αγόρασε τρία μεγάλα μήλα στην αγορά.
        Ο βασιλιάς πουλάει μία παλιά λάμπα τη Δευτέρα.
        Τα παιδιά δεν θα φάνε τα οκτώ καθαρά αυγά στην κουζίνα.
        Η νοσοκόμα είδε δύο μαύρες γάτες τη νύχτα.
        Το αγόρι δεν βρήκε τον σκύλο στο πάρκο.
        Οι γονείς γράφουν δώδεκα γράμματα το βράδυ.
        Ο γιατρός έδωσε πέντε ακριβά δαχτυλίδια στην Άννα.
        Το κορίτσι δεν δείχνει τα τέσσερα καινούργια βιβλία στα παιδιά.
        Η Έλενα θα στείλει ένα μικρό κλειδί στον δάσκαλο.
        Στη νοσοκόμα αρέσει το παλιό σπίτι της Άννας.
        Στα παιδιά δεν άρεσε το άσπρο πουκάμισο του αγρότη.
        Η Μαρία πήγε στο σχολείο με τον γιατρό.
        Οι γονείς δεν πηγαίνουν στο χωριό τον χειμώνα.
        Ο Πέτρος θα πάει στην κουζίνα με τα παιδιά.
        Το τραπέζι στην κουζίνα ήταν καθαρό.
        Το αυτοκίνητο στον κήπο δεν είναι ακριβό.
        Το κουτί στη βιβλιοθήκη θα είναι βαρύ.
        Η γιαγιά ήταν χαρούμενη στον σταθμό.
        Τα παιδιά δεν είναι θυμωμένα την Κυριακή.
        Ο Δαβίδ θα είναι ελεύθερος το πρωί.
        Υπήρχαν τέσσερις άσπρες καρέκλες στον κήπο το καλοκαίρι.
        Υπάρχει ένα μικρό άλογο στο χωριό.
        Δεν υπήρχαν μεγάλες τσάντες στον σταθμό.
        Δεν θα υπάρχουν αυγά στην κουζίνα.""",
    "zho_Hans": """
        安娜在市场上买了三个大苹果。
        国王星期一卖一盏旧灯。
        孩子们不会在厨房里吃那八个干净的鸡蛋。
        护士夜里看见了两只黑猫。
        男孩没有在公园里找到那条狗。
        父母傍晚写十二封信。
        医生给了安娜五枚昂贵的戒指。
        女孩不给孩子们看那四本新书。
        埃琳娜会寄给老师一把小钥匙。
        护士喜欢安娜那栋旧房子。
        孩子们以前不喜欢农民那件白衬衫。
        玛丽亚和医生一起去了学校。
        父母冬天不去村子。
        彼得会和孩子们一起去厨房。
        厨房里的桌子以前很干净。
        花园里的汽车不贵。
        图书馆里的盒子会很重。
        奶奶以前在车站里很高兴。
        孩子们星期天不生气。
        大卫早上会很空闲。
        以前夏天花园里有四把白椅子。
        村子里有一匹小马。
        以前车站里没有大包。
        厨房里不会有鸡蛋。""",
    "jpn_Jpan": """
        アンナは市場で三個の大きいりんごを買いました。
        王様は月曜日に古いランプを売ります。
        子供たちは台所でその八個のきれいな卵を食べないでしょう。
        看護師は夜、二匹の黒い猫を見ました。
        男の子は公園でその犬を見つけませんでした。
        両親は夕方、十二通の手紙を書きます。
        医者はアンナに五個の高い指輪をあげました。
        女の子は子供たちにその四冊の新しい本を見せません。
        エレナは先生に小さい鍵を送るでしょう。
        看護師はアンナの古い家が好きです。
        子供たちは農夫の白いシャツが好きではありませんでした。
        マリアは医者と学校へ行きました。
        両親は冬に村へ行きません。
        ピーターは子供たちと台所へ行くでしょう。
        台所のテーブルはきれいでした。
        庭の車は高くないです。
        図書館の箱は重いでしょう。
        おばあさんは駅で幸せでした。
        子供たちは日曜日に怒っていません。
        デイビッドは朝、暇でしょう。
        夏に庭に四脚の白い椅子がありました。
        村に小さい馬がいます。
        駅に大きいかばんはありませんでした。
        台所に卵はないでしょう。""",
}
