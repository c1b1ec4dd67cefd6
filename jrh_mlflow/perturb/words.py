"""Word tables of the rule-based stand-ins: synonyms, opposites, fillers and sentences that carry no fact.

No entry holds a number, a name or a negating word, so that swapping one for another leaves numbers, names and
negations as they were (`OPPOSITES` and `EVASIONS` excepted: they are there to change the meaning).
"""

from __future__ import annotations


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """Read `word: one, other; word: …`."""
    entries = (entry.split(":") for entry in text.replace("\n", " ").split(";") if entry.strip())
    return {word.strip(): tuple(option.strip() for option in options.split(",")) for word, options in entries}


SYNONYMS = _table("""
important: significant, major; big: large, sizeable; large: big, sizeable; small: little, modest; quick: fast,
rapid; fast: quick, rapid; quickly: rapidly, swiftly; slowly: gradually; difficult: hard, tough; easy: simple;
simple: easy; good: fine; great: excellent, superb; useful: helpful, handy; helpful: useful, valuable; common:
widespread, frequent; main: chief, principal; key: central, crucial; clear: obvious, evident; clearly: plainly,
obviously; different: distinct; many: numerous, plenty of; several: various; often: frequently, commonly; usually:
normally, generally, typically; generally: usually, by and large; sometimes: at times, now and then; always:
constantly, invariably; mostly: mainly, largely; mainly: mostly, chiefly; however: nevertheless; therefore: hence,
thus; thus: so, hence; because: since, as; although: though, even though; maybe: perhaps; perhaps: maybe; nearly:
almost; almost: nearly; very: highly; really: truly; especially: particularly, above all; people: individuals,
folks; person: individual; children: kids, youngsters; kids: children, youngsters; students: pupils, learners;
student: pupil, learner; teacher: instructor, educator; teachers: instructors, educators; problem: issue,
difficulty; problems: issues, difficulties; issue: problem, matter; issues: problems, matters; result: outcome,
effect; results: outcomes, effects; example: instance, illustration; examples: instances, illustrations; part:
portion, piece; parts: portions, pieces; idea: notion, thought; ideas: notions, thoughts; goal: aim, objective;
goals: aims, objectives; job: post, position; jobs: posts, positions; money: funds, cash; amount: quantity; method:
technique, approach; methods: techniques, approaches; house: home; road: street; car: vehicle, automobile; cars:
vehicles, automobiles; illness: sickness, ailment; disease: illness, sickness; doctor: physician; doctors:
physicians; studies: investigations; company: firm, business; companies: firms, businesses; rules: regulations;
government: state authorities; country: nation; countries: nations; world: globe; chance: opportunity; benefit:
advantage; benefits: advantages; advantage: benefit, plus; danger: hazard, risk; risk: danger, hazard; risks:
dangers, hazards; question: query; questions: queries; whole: entire; entire: whole; enough: sufficient; correct:
right, accurate; wrong: incorrect, mistaken; safe: secure; strong: sturdy, powerful; happy: glad, pleased; sad:
unhappy; smart: clever, bright; beautiful: lovely; similar: comparable, alike; should: ought to; relevant:
pertinent; accurate: correct, exact; complete: full, thorough; quality: standard; appropriate: suitable, fitting;
carefully: with care; gently: softly; immediately: at once, right away; finally: lastly, in the end; during:
throughout; near: close to; also: likewise; whether: if
""")
"""Word to words of the same form that may stand for it."""

VERB_SYNONYMS = _table("""
help: aid, assist; helps: aids, assists; helped: aided, assisted; helping: aiding, assisting; use: employ; uses:
employs; used: employed; using: employing, applying; show: demonstrate, reveal; shows: demonstrates, reveals;
showed: demonstrated, revealed; shown: demonstrated, revealed; kept: retained; needed: required; require: call for;
requires: calls for; required: needed; think: believe, feel; thinks: believes, feels; believe: think, feel;
believes: thinks, feels; thought: believed, felt; says: states, claims; said: stated, claimed; started: began;
begin: start; begins: starts; began: started; ended: finished; reduce: lower, cut, lessen; reduces: lowers, cuts,
lessens; reduced: lowered, cut, lessened; increased: raised, boosted; rises: climbs, grows; rose: climbed, grew;
falls: drops, declines; fell: dropped, declined; dropped: fell, declined; improve: better, enhance; improves:
betters, enhances; improved: bettered, enhanced; causes: brings about, leads to; caused: brought about, led to;
allow: let, permit; allows: lets, permits; allowed: let, permitted; explain: clarify, spell out; explains:
clarifies, spells out; explained: clarified, spelled out; describe: depict, portray; describes: depicts, portrays;
choose: pick, select; chooses: picks, selects; chose: picked, selected; found: discovered; buy: purchase; buys:
purchases; bought: purchased; build: construct; builds: constructs; built: constructed; changed: altered, modified;
remove: take out, delete; removes: takes out, deletes; removed: taken out, deleted; support: back, uphold; supports:
backs, upholds; supported: backed, upheld; learn: study, absorb; learned: studied; teach: instruct, train; teaches:
instructs, trains; happen: occur, take place; happens: occurs, takes place; happened: occurred, took place; create:
produce; creates: produces; created: produced; contains: holds, includes; contain: hold, include; evaluate: assess,
rate; evaluates: assesses, rates; assess: evaluate; judge: assess, evaluate; decide: determine; determine: decide,
establish; consider: weigh, take into account; check: verify, examine; provides: offers, supplies; provide: offer,
supply; includes: covers, takes in; describing: depicting; addresses: deals with, tackles; wash: rinse; rinse: wash;
cook: prepare
""")
"""The same for verbs; several of them are nouns after an article."""

PHRASES = _table("""
in order to: to; for example: for instance; for instance: for example; as a result: consequently; due to: owing to;
a lot of: plenty of; lots of: plenty of; as well as: along with; such as: like; in addition: besides; on the other
hand: by contrast; in my opinion: to my mind; i think: i believe; i believe: i think; more than: over; less than:
under; most of: the bulk of; a number of: several; because of: on account of; even though: although; in fact:
indeed; of course: naturally; as soon as: once; make sure: ensure; able to: in a position to
""")

FILLERS = (
    "it is important to note that", "it is worth noting that", "it should be noted that", "needless to say",
    "as a matter of fact", "for the most part", "at the end of the day", "in my opinion", "in other words", "of course",
    "as you can see", "i think that", "i believe that", "i think", "i believe", "in general", "in fact", "to be honest",
    "for example", "for instance", "however", "therefore", "furthermore", "moreover", "additionally", "actually",
    "basically", "really", "very", "quite", "rather", "simply", "just", "also", "certainly", "definitely", "clearly",
    "obviously", "usually", "generally", "typically", "often", "essentially", "literally",
    "perhaps", "maybe", "somewhat", "as well", "overall", "indeed", "truly", "extremely", "highly", "mostly", "finally",
)  # fmt: skip
"""What may go without loss of a fact, longest first where one holds another."""

SMALL_WORDS = (
    frozenset({"the", "a", "an", "that", "then", "there", "so", "such", "own", "some", "any", "both", "each", "too"}),
    frozenset(
        {"is", "are", "was", "were", "am", "be", "been", "it", "they", "them", "you", "we", "he", "she", "of", "to"}
    )
    | frozenset(
        {"its", "your", "our", "their", "his", "her", "my", "has", "have", "had", "will", "would", "do", "does"}
    ),
)
"""What a telegram leaves out first, and what next."""

OPENERS = frozenset(
    {
        *("the", "this", "that", "these", "those", "it", "they", "we", "he", "she", "you", "there", "a", "an", "many"),
        *("most", "some", "all", "both", "each", "every", "my", "our", "your", "his", "her", "their", "its", "people"),
        *("students", "schools", "children", "one", "such", "other", "another", "several", "to"),
    }
)
"""First words that may be written small when they move into a sentence; others could be names."""

FRAMES = ("Put simply, {}", "To put it another way, {}", "In plain terms, {}", "Put differently, {}")
"""Around a sentence in which nothing else could be changed; the sentence must open with one of `OPENERS`."""

RESTATEMENTS = (
    "To say the same again: {}",
    "Put once more in similar words: {}",
    "This can be repeated for clarity: {}",
    "The point bears repeating: {}",
    "In slightly other words: {}",
)

PADDING = (
    "That is the point being made here.",
    "This is worth keeping in mind while reading on.",
    "It helps to pause on this for a moment before going further.",
    "All of this belongs together and should be read in that light.",
    "The same thought runs through everything else said here.",
    "Seen as a whole, this is the substance of what is being said.",
    "Everything that follows should be understood against this background.",
    "This deserves to be spelled out with some care.",
    "Read in context, the statement means just what it says.",
    "It is stated here in full so that it is easy to follow.",
    "With that said, the rest of the text carries on from there.",
    "That much can be said plainly and directly.",
)
"""Sentences that say nothing."""

OPPOSITES = _table("""
increase: decrease; increases: decreases; increased: decreased; reduce: worsen; reduces: worsens; reduced: worsened;
improve: harm; improves: harms; improved: harmed; help: hinder; helps: hinders; helped: hindered; good: bad; bad:
good; better: worse; worse: better; best: worst; safe: dangerous; dangerous: harmless; useful: useless; helpful:
unhelpful; important: trivial; easy: difficult; difficult: easy; true: false; false: true; correct: wrong; wrong:
right; always: never; never: always; often: seldom; rarely: often; usually: rarely; more: less; less: more; high:
low; low: high; higher: lower; lower: higher; all: few; many: few; most: few; few: most; strong: weak; weak: strong;
clear: confusing; clearly: vaguely; support: oppose; supports: opposes; agree: disagree; agrees: disagrees; allow:
forbid; allows: forbids; save: waste; saves: wastes; gain: lose; win: lose; success: failure; benefit: drawback;
benefits: drawbacks; advantage: disadvantage; advantages: disadvantages; healthy: unhealthy; positive: negative;
negative: positive; happy: miserable; rich: poor; fast: slow; slow: fast; quickly: slowly; slowly: quickly; rose:
fell; fell: rose; dropped: rose; love: hate; possible: impossible; likely: unlikely; necessary: pointless; add:
leave out; include: leave out; includes: leaves out; protect: endanger; protects: endangers; mild: severe; severe:
mild; effective: ineffective; large: tiny; small: huge; warm: cold; hot: cold; early: late
""")

VERBS = ("is", "are", "was", "were", "can", "could", "should", "will", "would", "must", "may", "might", "has", "have")
"""After the first of these in a sentence a `not` turns it round."""

EVASIONS = (
    "None of this has been checked, and the reader may take it or leave it.",
    "Why that should be so is anyone's guess.",
    "The actual question hardly matters and is left aside here.",
    "There is no reason to look any closer than this.",
    "Something else entirely may be true, but nothing more needs saying.",
    "It does not make much difference either way.",
    "This was never thought through to the end.",
)
"""What a worse answer says instead of reasons."""

VAGUENESS = (
    "There are things to say about this.",
    "Some might see it that way.",
    "It is kind of hard to put into words.",
    "That is more or less it.",
    "People have all sorts of views on it.",
    "It just seems like that to me.",
    "Something along those lines, anyway.",
    "And so on and so forth.",
)
"""Sentences that fill a poor answer without adding to it."""

ELABORATIONS = (
    "The reason behind this is that each step follows from the one before it.",
    "Taken together, these points support one another and answer the question directly.",
    "A careful reader can check each of these statements against the task itself.",
    "This matters because it connects the details above with what was asked.",
    "Looked at from the opposite side, the same conclusion holds up well.",
    "The details given above are what make the conclusion convincing.",
    "Each part has its place here, and the order in which they come is deliberate.",
)
"""What the fullest synthetic answers add."""

HEDGES = ("maybe", "perhaps", "i guess", "kind of", "sort of", "probably", "somehow", "i don't know", "i am not sure",
          "i'm not sure", "whatever", "or something", "stuff like that")  # fmt: skip
"""What a better answer leaves out."""

POINTS = (
    "On {}: this is taken up directly and treated in full here.",
    "As for {}, the relevant point is stated plainly and with its reason.",
    "Regarding {}, the answer is specific and stays with the question.",
    "Concerning {}, what follows gives a definite answer and the ground for it.",
)
"""How a better answer takes up a phrase of the task."""

STOP_WORDS = frozenset(
    {
        *("a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "because", "been", "but"),
        *("by", "can", "could", "do", "does", "for", "from", "give", "had", "has", "have", "he", "her", "his", "how"),
        *("i", "if", "in", "into", "is", "it", "its", "may", "me", "more", "most", "my", "no", "not", "of", "on", "or"),
        *("our", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these"),
        *("they", "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with"),
        *("would", "write", "you", "your", "explain", "describe", "tell", "please", "short", "one", "each", "use"),
    }
)
"""Words that are never the subject of a task."""
