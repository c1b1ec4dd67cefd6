"""Texts, seeds and benches that the tests of generator-written perturbations share."""

from __future__ import annotations

from jrh_mlflow.perturb._base import CheckContext, Target
from jrh_mlflow.perturb.checks import TfidfSimilarity
from jrh_mlflow.schema.items import Labels, Seed

SCALE = Labels(answers=("1", "2", "3", "4", "5"), ordinal=True)
BINARY = Labels(answers=("no", "yes"))
RUBRIC = (
    "Rate from 1 to 5 how well the response answers the task. A response that does not give a reason gets at most 3."
)
TASK = "Explain the main reasons to a class of students and give one example."

TEXTS = (
    (
        "I think schools should require uniforms because they reduce bullying and save families money. At Lincoln "
        "High, fights dropped by 12 percent after uniforms were introduced in 2014. Students can still express "
        "themselves through art and sport, and nobody is judged for old shoes."
    ),
    (
        "Vaccines train the immune system to recognise a pathogen before it causes disease. They do not give you "
        "the illness, and in trials with 30,000 people the flu vaccine cut hospital visits by 40 percent. Side "
        "effects are usually mild and last one or two days."
    ),
    (
        "To make lentil soup, rinse 200 grams of red lentils and simmer them with onion, carrot and cumin for 25 "
        "minutes. Add lemon juice at the end. The soup keeps in the fridge for 3 days and tastes even better on "
        "the second day."
    ),
    (
        "A Python list is mutable, so you can append or remove elements after it is created. A tuple is not "
        "mutable. Use a tuple when the data should not change, for example as a dictionary key, and use `list` in "
        "most other cases."
    ),
    (
        "The French Revolution began in 1789 because the state was nearly bankrupt and bread had become too "
        "expensive for ordinary people. Louis XVI called the Estates General, but the delegates could not agree on "
        "how to vote. The Third Estate declared itself a National Assembly. In the end, the king lost his power, "
        "and three years later the monarchy was abolished."
    ),
    (
        "Thank you for reaching out about your order. We are sorry that the parcel has not arrived yet. It left "
        "our warehouse in Hamburg on Monday and is currently with the carrier. If it does not reach you within 5 "
        "days, please reply to this message and we will send a replacement free of charge."
    ),
    (
        "Photosynthesis is the process by which plants turn light into chemical energy. Chlorophyll in the leaves "
        "absorbs sunlight, and the plant uses that energy to convert water and carbon dioxide into glucose and "
        "oxygen. The oxygen is released through small openings called stomata. Without this process, life on Earth "
        "as we know it would not exist."
    ),
    (
        "My grandmother's kitchen was the warmest room in the house. She always kept a pot of coffee on the stove, "
        "and neighbours walked in without knocking. I remember the smell of bread, the radio playing softly, and "
        "the way she laughed when my uncle told the same joke again. When she died in 2009, the house felt empty."
    ),
    (
        "Here are some tips for a job interview:\n\n"
        "1. Research the company before you go.\n"
        "2. Prepare two or three questions of your own.\n"
        "3. Do not speak badly about a former employer.\n"
        "4. Arrive 10 minutes early and bring a printed copy of your resume.\n\n"
        "Above all, be honest about what you can and cannot do."
    ),
    (
        "The defendant claims that he never signed the contract. However, the bank's records show that a payment "
        "of $4,500 was made from his account on 3 March, two days after the date on the document. A handwriting "
        "expert, Dr. Helen Moore, also concluded that the signature is very likely genuine. It is therefore hard "
        "to believe his story."
    ),
    (
        "Regular exercise improves mood, sleep and heart health. Even a short walk of 20 minutes each day can make "
        "a difference, especially for people who sit at a desk. You don't need expensive equipment. It is "
        "important to start slowly and to increase the effort over several weeks, because doing too much at once "
        "often leads to injury."
    ),
    (
        "I don't really know much about this topic but I guess climate change is bad. Maybe people should drive "
        "less or something. My teacher said that the ice is melting and the sea will rise, and I think that is "
        "scary. Governments should do something about it before it is too late for the polar bears and for us."
    ),
    (
        "Remote work has clear advantages: employees save time on commuting, companies save money on offices, and "
        "teams can hire from anywhere. On the other hand, new colleagues find it harder to learn the culture, and "
        "meetings across time zones are tiring. A mixed model with two office days per week seems to be the best "
        "compromise for most companies."
    ),
)

PARAPHRASES = {
    0: (
        "In my view uniforms ought to be compulsory at school, since families spend less and there is less "
        "bullying. After Lincoln High brought them in in 2014, the number of fights fell by 12 percent. "
        "Pupils still have sport and art to show who they are, and nobody looks down on them for old shoes."
    ),
    1: (
        "Immunisation teaches the body's defences to spot a germ before illness sets in. A vaccine does not "
        "make you sick, and trials of 30,000 participants found that flu shots lowered hospital visits by 40 "
        "percent. Unwanted effects tend to be mild, fading within one or two days."
    ),
    2: (
        "For a lentil soup, wash 200 grams of red lentils, then cook them gently for 25 minutes together "
        "with cumin, carrot and onion, finishing with the juice of a lemon. Refrigerated, it lasts 3 days, "
        "and a day later it is even nicer."
    ),
    3: (
        "Because lists in Python can be changed, elements may be added or deleted once the list exists. "
        "Tuples cannot be altered. Choose a tuple for data that must not change, such as a key in a "
        "dictionary; elsewhere `list` is mostly right."
    ),
}
FLIPS = {
    0: (
        "I think schools should never require uniforms because they increase bullying and cost families "
        "money. At Lincoln High, fights rose after uniforms were introduced. Students lose every way to "
        "express themselves."
    ),
    1: (
        "Vaccines weaken the immune system and often give you the very illness they are meant to stop. "
        "Trials with 30,000 people proved nothing about hospital visits, and side effects are usually severe "
        "and last for years."
    ),
    2: (
        "To make lentil soup, leave the lentils unrinsed and boil them dry with sugar and vinegar for 2 "
        "minutes. Skip the onion and cumin. The soup keeps outside the fridge for a month and tastes of "
        "nothing."
    ),
    3: (
        "A Python list is immutable, so nothing can be appended or removed after it is created. A tuple can "
        "be changed freely. Use a list as a dictionary key when the data should not change."
    ),
}
SUMMARIES = {
    0: (
        "Uniforms reduce bullying and save money: at Lincoln High fights dropped 12 percent after 2014, and "
        "nobody is judged for shoes."
    ),
    1: (
        "Vaccines prepare the immune system and do not cause illness; with 30,000 people, flu vaccine cut "
        "hospital visits 40 percent. Side effects pass in one or two days."
    ),
    2: ("Simmer 200 grams red lentils with onion, carrot, cumin for 25 minutes; add lemon. Keeps 3 days."),
    3: ("Lists are mutable, tuples are not; use tuples for data that should not change, such as dictionary keys."),
}
EXPANSIONS = {place: f"{PARAPHRASES[place]} In other words: {TEXTS[place]}" for place in PARAPHRASES}
GARBAGE = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore " * 3
)

TFIDF = TfidfSimilarity(TEXTS)


def seeds(labels: Labels = SCALE) -> list[Seed]:
    """One seed per text, labels in turn."""
    n_labels = len(labels.answers)
    return [
        Seed(id=f"s{index}", instruction=TASK, response=text, label=labels.answers[index % n_labels])
        for index, text in enumerate(TEXTS)
    ]


def target(original: str, *, labels: Labels = BINARY, examples: tuple[str, ...] = ()) -> Target:
    """An item made of one response."""
    seed = Seed(id="s", instruction=TASK, response=original, label=labels.answers[0])
    return Target(
        test="t", condition="t", seed=seed, labels=labels, rubric=RUBRIC, expected=labels.answers[0], examples=examples
    )


def bench(*earlier: str) -> CheckContext:
    """TF-IDF over the texts, with what was made before."""
    return CheckContext(similarity=TFIDF, earlier=earlier)
