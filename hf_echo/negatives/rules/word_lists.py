"""Hand-written word lists of the rules: antonyms, and words of one kind that can replace each other."""

from __future__ import annotations

# Each pair works both ways unless written with ">"; the first antonym of a word is used.
_ADJECTIVES = """
good-bad better-worse best-worst big-small bigger-smaller biggest-smallest large-small larger-smaller
largest-smallest great-terrible high-low higher-lower highest-lowest long-short longer-shorter
longest-shortest old-new older-newer oldest-newest young-old younger-older youngest-oldest tall>short
taller>shorter tallest>shortest early-late earlier-later earliest-latest fast-slow faster-slower
fastest-slowest quick-slow quicker-slower quickly-slowly slowly-quickly rapidly-slowly hot-cold
hotter-colder hottest-coldest warm-cool warmer-cooler heavy>light heavier-lighter heaviest-lightest
strong-weak stronger-weaker strongest-weakest rich-poor richer-poorer richest-poorest easy-difficult
easier-harder easiest-hardest easily>hardly hard>easy simple-complex happy-sad happier-sadder happily-sadly
unhappy>happy clean-dirty cleaner>dirtier full-empty wide-narrow wider-narrower deep-shallow
deeper-shallower thick-thin thicker-thinner dark-bright darker-brighter dry-wet safe-dangerous safer>riskier
safely>dangerously true-false right-wrong correct-incorrect correctly-incorrectly possible-impossible
likely-unlikely able-unable important-unimportant necessary-unnecessary useful-useless common-rare
rarely-often seldom>often frequently-rarely normal-abnormal usual-unusual usually>rarely public-private
legal-illegal legally-illegally local-foreign domestic-international international-domestic national>local
internal-external inner-outer upper-lower major-minor maximum-minimum first-last former-latter previous-next
ancient-modern modern-ancient permanent-temporary permanently-temporarily positive-negative active-inactive
visible-invisible available-unavailable successful-unsuccessful successfully-unsuccessfully famous-unknown
popular-unpopular expensive-cheap cheaper>dearer rough-smooth sharp-blunt loud-quiet loudly-quietly
quiet>noisy noisy>quiet polite-rude kind>cruel brave-cowardly clever-stupid smart-stupid wise-foolish
intelligent>stupid honest-dishonest guilty-innocent alive-dead dead>alive sick-healthy ill>healthy
awake-asleep open-closed married-single beautiful-ugly pretty>ugly handsome>ugly attractive>unattractive
interesting-boring exciting>boring fair-unfair friendly-unfriendly patient>impatient lucky-unlucky
regular-irregular direct-indirect directly-indirectly complete-incomplete accurate-inaccurate
sufficient-insufficient efficient-inefficient dependent-independent similar>different different>similar
equal-unequal certain-uncertain clear-unclear clearly>vaguely known>unknown unknown>known
aware-unaware familiar-unfamiliar comfortable-uncomfortable pleasant-unpleasant acceptable-unacceptable
natural-artificial real-fake raw-cooked fresh-stale sweet-bitter soft-hard tight-loose violent>peaceful
peaceful>violent calm>agitated nervous>calm angry>calm serious>trivial severe-mild urban-rural
conservative>liberal liberal>conservative military>civilian civilian>military male-female
vertical-horizontal empty-full crowded>empty busy>quiet shallow-deep optimistic-pessimistic generous-selfish
rising-falling increasing-decreasing growing>shrinking leading>trailing partly>entirely completely>partly
entirely>partly fully>partly totally>partly absolutely>hardly generally>rarely nearby>distant distant>nearby
close>distant safe-dangerous outdoor-indoor outdoors-indoors upstairs-downstairs upward-downward
forward-backward forwards-backwards northern-southern eastern-western north-south east-west
clockwise-anticlockwise uppercase-lowercase ascending-descending valid-invalid optional-mandatory
required>optional mandatory>optional readable-unreadable enabled-disabled locked-unlocked global-local
manual-automatic manually-automatically automatically-manually recent>old bold>timid
proud-ashamed grateful-ungrateful confident>hesitant satisfied-dissatisfied pleased-displeased
related-unrelated employed-unemployed educated-uneducated qualified-unqualified expected-unexpected
unexpectedly>predictably suddenly>gradually gradually>suddenly willing-unwilling reasonable-unreasonable
reliable-unreliable stable-unstable appropriate-inappropriate effective-ineffective
responsible-irresponsible formal-informal formally-informally perfect-imperfect pure-impure holy-unholy
righteous-wicked evil>good faithful-unfaithful blessed-cursed humble-proud eternal>temporary
everlasting>fleeting terrible>great awful>wonderful wonderful>awful excellent>poor horrible>lovely
lovely>horrible brilliant>mediocre fantastic>dreadful special>ordinary ordinary>special traditional>modern
single>double free>captive tired>rested thirsty-quenched hungry>full bored>fascinated shy>outgoing
lazy-hardworking rude>polite blind>sighted naked>clothed wrong>right straight-crooked flat>steep steep>flat
"""

_OTHER = """
always-never everyone>nobody everybody>nobody everything>nothing everywhere>nowhere nobody>everybody
nothing>everything nowhere>everywhere something>nothing someone>nobody somebody>nobody inside-outside
above-below before-after after-before with-without near>far_from behind>ahead_of over-under
upstairs>downstairs together-separately indoors-outdoors yes-no few-many many-few fewer>more more-less
less>more up-down top-bottom left-right front-back despite>because_of including-excluding day-night
days-nights morning-evening mornings-evenings summer-winter spring-autumn daytime-nighttime sunrise-sunset
dawn-dusk beginning>end war-peace victory-defeat victories-defeats success-failure successes-failures
friend-enemy friends-enemies ally-rival allies-rivals advantage-disadvantage advantages-disadvantages
majority-minority profit-loss profits-losses truth-lie life-death birth-death heaven-earth strength-weakness
strengths-weaknesses winner-loser winners-losers buyer-seller buyers-sellers teacher-student
teachers-students employer-employee employers-employees supporter-opponent supporters-opponents host-guest
hosts-guests wisdom-folly hope>despair joy-sorrow happiness>misery poverty-wealth wealth-poverty
health>sickness freedom-slavery hatred>love darkness>light arrival-departure entrance-exit income>spending
ceiling-floor arrivals-departures knowledge-ignorance courage-cowardice presence-absence
surplus-deficit growth-decline blessing-curse blessings-curses righteousness-wickedness input-output
inputs-outputs uppercase>lowercase prefix-suffix minimum-maximum import-export imports-exports sunny-rainy
dry>wet question-answer questions-answers problem>solution problems>solutions optimism-pessimism coward>hero
hero>coward desert>sea mountain-valley mountains-valleys city>village cities>villages sky>ground
foreigner>native hill>valley
"""

# verbs; hf_echo.negatives.rules.verbs makes their forms
_VERBS = """
accept-reject add-remove admit-deny agree-disagree allow-forbid appear-disappear arrive>depart
attack-defend begin-end buy-sell
build-destroy climb>descend close-open create-destroy
increase-decrease lose-win love-hate remember-forget rise-fall push-pull cry-laugh live>die
lower-raise succeed>fail fail>succeed send-receive save-waste include-exclude enable-disable hide-show
lock-unlock expand-collapse upload-download encourage>prevent criticize-praise support-oppose
like-dislike approve-reject borrow-lend deny>confirm confirm-deny protect>attack destroy>build refuse>agree
stand>sit sit>stand stop-start start>stop finish>begin continue>stop improve>damage join>leave
keep>lose lead-follow follow>ignore mention>omit notice>overlook praise>criticize promote>oppose
prove>refute reduce-increase reveal-conceal trust-doubt understand>misunderstand welcome>reject win-lose
throw-catch die>live kill>save free>capture rescue>abandon abandon>rescue
decline>rise bless-curse drop>lift enjoy>hate obey>disobey believe>doubt smile>frown
strengthen>weaken exceed>miss ignore>follow permit>forbid connect>disconnect prevent>allow grow>shrink
install>uninstall float>sink sink>float freeze>melt melt>freeze whisper>shout
shout>whisper
"""

# man and woman: replaced together with the pronouns
GENDER_PAIRS = """
man-woman men-women boy-girl boys-girls father-mother fathers-mothers brother-sister brothers-sisters
son-daughter sons-daughters husband-wife husbands-wives king-queen kings-queens prince-princess uncle-aunt
uncles-aunts nephew-niece grandfather-grandmother grandson-granddaughter actor-actress waiter-waitress
gentleman-lady gentlemen-ladies dad-mom dads-moms boyfriend-girlfriend businessman-businesswoman
chairman-chairwoman spokesman-spokeswoman policeman-policewoman policemen-policewomen
""".split()

# words of one list can replace each other (OS Table 31: psychologist -> sociologist)
SIBLINGS = """
red blue green yellow purple pink brown gray
dog cat horse cow sheep rabbit goat pig
dogs cats horses cows rabbits goats pigs birds
archaeologist anthropologist biologist psychologist sociologist physicist chemist economist
doctor nurse lawyer farmer baker carpenter plumber journalist
doctors nurses lawyers farmers bakers carpenters plumbers journalists
car bus train bicycle motorcycle truck taxi
cars buses trains bicycles motorcycles trucks taxis
football basketball tennis baseball hockey golf rugby volleyball
guitar piano violin flute trumpet
apple banana pear peach lemon mango
apples bananas pears peaches lemons mangoes
bread rice cheese soup pasta salad
coffee tea milk juice beer wine
shirt jacket hat coat sweater dress scarf
hospital school library museum station theater restaurant church
hospitals schools libraries museums stations theaters restaurants churches
river lake forest beach mountain desert island
kitchen bathroom bedroom garage garden basement
president minister governor mayor senator ambassador
physics chemistry biology history geography mathematics philosophy
gold silver copper iron bronze
teacher engineer pilot chef painter singer
book letter newspaper magazine notebook
chair sofa bed desk bench
""".strip().splitlines()

MALE_NAMES = """
Tom John David James Michael Robert William Richard Thomas Mark Paul Steven Andrew Kenneth George Edward
Brian Kevin Jason Jeff Gary Timothy Jose Larry Jeffrey Frank Scott Eric Stephen Raymond Gregory Joshua Jerry
Dennis Walter Patrick Peter Harold Douglas Henry Carl Arthur Ryan Roger Joe Juan Jack Albert Jonathan Justin
Terry Gerald Keith Samuel Willie Ralph Lawrence Nicholas Roy Benjamin Bruce Brandon Adam Harry Fred Wayne
Billy Steve Louis Jeremy Aaron Randy Howard Eugene Carlos Russell Bobby Victor Martin Ernest Phillip Todd
Jesse Craig Alan Shawn Philip Sean Chris Earl Jimmy Antonio Danny Bryan Tony Luis Mike Stanley Leonard
Nathan Dale Manuel Rodney Curtis Norman Allen Marvin Vincent Glenn Travis Jeff Chad Jacob Alexander Simon
Ken Bob Jim Dan Matthew Charles Daniel Anthony
""".split()

FEMALE_NAMES = """
Mary Patricia Linda Barbara Elizabeth Jennifer Maria Susan Margaret Dorothy Lisa Nancy Karen Betty Helen
Sandra Donna Carol Ruth Sharon Michelle Laura Sarah Kimberly Deborah Jessica Shirley Cynthia Angela Melissa
Brenda Amy Anna Rebecca Kathleen Pamela Martha Debra Amanda Stephanie Carolyn Christine Marie Janet
Catherine Frances Ann Joyce Diane Alice Julie Heather Teresa Doris Gloria Evelyn Jean Cheryl Mildred
Katherine Joan Ashley Judith Rose Janice Kelly Nicole Judy Christina Kathy Theresa Beverly Denise Tammy
Irene Jane Lori Rachel Marilyn Andrea Kathryn Louise Sara Anne Jacqueline Wanda Bonnie Julia Ruby Lois Tina
Phyllis Norma Paula Diana Annie Lillian Emily Robin Kate Emma Sophie Layla Lucy Olivia Hannah Claire
""".split()

SURNAMES = """
Smith Johnson Williams Jones Davis Miller Wilson Moore Taylor Anderson Jackson White Harris Thompson Garcia
Martinez Robinson Clark Rodriguez Lewis Walker Hall Young Hernandez Wright Lopez Hill Green Adams Baker
Gonzalez Nelson Carter Mitchell Perez Roberts Turner Phillips Campbell Parker Evans Edwards Collins Stewart
Sanchez Morris Rogers Reed Cook Morgan Bell Murphy Bailey Rivera Cooper Richardson Cox Howard Ward Torres
Peterson Gray Ramirez Watson Brooks Sanders Price Bennett Wood Barnes Ross Henderson Coleman Jenkins Perry
Powell Long Patterson Hughes Flores Washington Butler Simmons Foster Bryant Griffin Diaz Hayes Trump Obama
Clinton Bush Biden Merkel Macron Putin Kavanaugh Ford Blair Cameron Johnson Corbyn Netanyahu Modi Erdogan
Thatcher Reagan Kennedy Lincoln Roosevelt Churchill
""".split()

BIBLE_NAMES = """
Moses Aaron Joshua Samuel Saul Solomon Elijah Elisha Isaiah Jeremiah Ezekiel Abraham Isaac Jacob Joseph Noah
Caleb Gideon Samson Jonathan Absalom Josiah Hezekiah Pharaoh Nebuchadnezzar Barnabas Timothy Silas Herod
Pilate
""".split()

COUNTRIES = """
France Germany Italy Spain Portugal England Scotland Ireland Norway Sweden Denmark Finland Poland Austria
Hungary Greece Turkey Russia Ukraine China Japan India Pakistan Indonesia Thailand Vietnam Malaysia
Australia Canada Mexico Brazil Argentina Chile Peru Colombia Egypt Morocco Nigeria Kenya Ethiopia Ghana
Israel Iran Iraq Syria Lebanon Belgium Switzerland Romania Bulgaria Serbia Croatia Cuba Venezuela
Afghanistan Bangladesh Nepal Iceland Wales Cambodia Singapore Taiwan Uganda Tanzania Zimbabwe Algeria
Tunisia Libya Jordan Yemen Qatar Bolivia Ecuador Uruguay Paraguay
""".split()

CITIES = (
    """
London|Paris|Berlin|Rome|Madrid|Lisbon|Vienna|Prague|Warsaw|Budapest|Athens|Moscow|Istanbul|Cairo|Beijing
Shanghai|Tokyo|Osaka|Seoul|Delhi|Mumbai|Bangkok|Jakarta|Manila|Sydney|Melbourne|Toronto|Montreal|Vancouver
Chicago|Boston|Seattle|Houston|Dallas|Miami|Atlanta|Detroit|Philadelphia|Denver|Phoenix|New York|Los Angeles
San Francisco|Washington|Mexico City|Buenos Aires|Lima|Bogota|Santiago|Havana|Nairobi|Lagos|Johannesburg
Cape Town|Casablanca|Tehran|Baghdad|Damascus|Jerusalem|Tel Aviv|Beirut|Dubai|Dublin|Edinburgh|Glasgow
Manchester|Liverpool|Brussels|Amsterdam|Copenhagen|Stockholm|Oslo|Helsinki|Zurich|Geneva|Munich|Hamburg
Frankfurt|Cologne|Milan|Naples|Venice|Barcelona|Seville|Hong Kong|Babylon|Damascus|Bethlehem|Nazareth|Hebron
Kyoto|Las Vegas|San Diego|New Orleans|Pyongyang|Karachi
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

US_STATES = (
    """
California|Texas|Florida|Ohio|Michigan|Illinois|Georgia|Virginia|Arizona|Colorado|Oregon|Nevada|Utah|Iowa
Kansas|Alabama|Tennessee|Kentucky|Louisiana|Minnesota|Wisconsin|Missouri|Oklahoma|Nebraska|Massachusetts
Pennsylvania|North Carolina|South Carolina|New Jersey|Maryland|Connecticut|Hawaii|Alaska
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

# with "the" before them
THE_COUNTRIES = [
    "United States",
    "United Kingdom",
    "Netherlands",
    "Philippines",
    "Soviet Union",
    "European Union",
]
SHORT_COUNTRIES = ["US", "UK", "EU", "UN", "U.S.", "U.K.", "USA"]

CONTINENTS = ["Europe", "Asia", "Africa", "South America", "North America", "Antarctica"]

# adjectives and languages: "the French team", "She speaks French"
NATIONALITIES = """
French German Italian Spanish Portuguese English Scottish Irish Norwegian Swedish Danish Finnish Polish
Austrian Hungarian Greek Turkish Russian Ukrainian Chinese Japanese Indian Pakistani Indonesian Thai
Vietnamese Australian Canadian Mexican Brazilian Argentine Chilean Peruvian Colombian Egyptian Moroccan
Nigerian Kenyan Ethiopian Israeli Iranian Iraqi Syrian Lebanese Belgian Swiss Dutch Romanian Bulgarian
Serbian Croatian Cuban American British European Asian African Korean Czech Welsh Saudi Palestinian
""".split()

# "learn French", "speaks Danish"
SPOKEN = """
French German Italian Spanish Portuguese English Norwegian Swedish Danish Finnish Polish Hungarian Greek
Turkish Russian Ukrainian Chinese Japanese Indonesian Thai Vietnamese Dutch Romanian Bulgarian Serbian
Croatian Korean Czech Welsh
""".split()

ORGANISATIONS = """
Google|Microsoft|Apple|Amazon|Facebook|Twitter|Toyota|Honda|Sony|Samsung|Intel|IBM|Boeing|Airbus|Nokia
Netflix|Siemens|Walmart|Uber|YouTube
BBC|CNN|Reuters|Bloomberg|ABC|CBS|NBC
Arsenal|Chelsea|Manchester United|Manchester City|Real Madrid|Barcelona|Juventus|Rangers|Celtic|Everton
NASA|FBI|CIA|NATO|UNESCO|Interpol
Harvard|Yale|Oxford|Cambridge|Princeton|Stanford
Windows|Linux|macOS|Android
Python|Java|Perl|Ruby
GNOME|KDE|Xfce
Debian|Ubuntu|Fedora|Gentoo
Word|Excel|PowerPoint|Outlook
Christmas|Easter|Thanksgiving|Halloween
Mars|Venus|Jupiter|Saturn|Mercury|Neptune
Democrats|Republicans
Democratic|Republican
Democrat|Republican
Christians|Muslims|Jews|Buddhists|Hindus
Christian|Muslim|Jewish|Buddhist|Hindu
Israelites|Egyptians|Philistines|Moabites|Assyrians|Babylonians
Atlantic|Pacific|Indian Ocean
""".strip().splitlines()

TITLES = frozenset(
    "mr mrs ms dr sir judge president senator minister secretary professor captain general king queen".split()
)

MONTHS = (
    "January February March April May June July August September October November December "
    "Jan Feb Mar Apr Jun Jul Aug Sept Oct Nov Dec"
).split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def _pairs(text: str) -> dict[str, str]:
    opposites: dict[str, str] = {}
    for entry in text.split():
        one_way = ">" in entry
        left, right = entry.split(">" if one_way else "-")
        opposites.setdefault(left, right.replace("_", " "))
        if not one_way:
            opposites.setdefault(right, left)
    return opposites


#: word -> antonym that fits in the same place
ANTONYMS: dict[str, str] = _pairs(_ADJECTIVES) | _pairs(_OTHER)
#: base form -> antonym's base form; some antonyms are regular verbs outside the lexicon
VERB_ANTONYMS: dict[str, str] = _pairs(_VERBS)
GENDER: dict[str, str] = _pairs(" ".join(GENDER_PAIRS))

# phrases in which a word has no antonym
FIXED_PHRASES: frozenset[tuple[str, ...]] = frozenset(
    tuple(phrase.split())
    for phrase in """
's right|- old|absolutely no|after all|all right|any more|in common|begin to|begins to|began to|begun to|
almost entirely|almost completely|life jacket|life jackets|life vest|known as|known for|lost to|lose to|
loses to|
appear as|appear that|appear to|appeared as|
appeared that|appears as|appears that|appeared to|appears to|as long|as many|
as possible|ask for|ask if|ask to|asked for|asked if|asked to|asked whether|at first|at last|at least|
at most|back to|back up|before long|best man|big ben|black and|came forward|catch up|civil war|clear that|
clear up|close to|closed to|cold war|come forward|coming forward|common sense|current affairs|dead end|
dead sea|die down|different from|double click|early on|even before|fail to|failed to|failing to|fails to|
fair share|far east|find out|find that|first aid|first name|following the|foreign affairs|foreign minister|
foreign ministry|foreign secretary|found out|found that|free from|free of|free time|front of|give up|
good bye|good evening|good luck|good morning|good night|grand old|great britain|great deal|hard of|hard to|
high court|high school|high speed|high street|hot dog|hot dogs|how early|how far|how long|how many|how old|
human rights|in general|in particular|in short|keep on|kept on|kind of|last but|last month|last name|
last night|last week|last year|lead to|leads to|led to|left over|light of|little more|live in|live on|
live up|live with|lived in|lives in|lives with|long -|long ago|long as|long before|long run|long since|
long term|love to|lower case|major league|middle east|months old|more or|much more|natural gas|
natural selection|new testament|new york|new zealand|next door|next month|next to|next week|next year|
no longer|no more|no one|north korea|old as|old testament|once more|one -|open -|open source|open to|
pass by|pass on|passed away|passed by|perfect storm|prime minister|private key|public domain|public key|
raw material|raw materials|regular expression|regular expressions|remember that|right -|right after|
right away|right before|right in|right now|right of|right on|right to|rise to|same as|same time|save for|
secretary general|set up|short of|short term|short time|so called|so far|so few|so long|sort of|
south africa|south korea|stand for|standard input|stands for|start with|started with|starting from|
starting with|strong wind|sweet potato|that right|the few|the following|there before|too many|true -|
true for|up front|up to|up with|upper case|used to|well -|west bank|white house|world war|year old|
years old|yes to|young as
""".split("|")
)
