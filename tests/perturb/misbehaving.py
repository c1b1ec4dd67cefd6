"""How writers misbehave: 200 ways to return a text that is more, less or other than the text, and what must happen.

A way is a template. What stands for the honest rewrite in it: `§T` as it is, `§J` escaped for JSON, `§P` as a literal
of Python, `§2` and `§4` indented, `§Q` quoted line by line, `§H` its first part cut within a word, `§A` and `§B` its
halves; `§O` and `§K` are the original, plain and escaped, `§I` is a line of the brief. `happens` is `unwrap` (exactly
the honest text comes out) or the kind of the reason for which it is set aside. Each way is tried on the original of its
shape, and must not leak on any other.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from jrh_mlflow.perturb._base import prompt

UNWRAP = "unwrap"
BRIEF = prompt("semantic_paraphrase")


class Pair(NamedTuple):
    """A text and an honest rewrite of it."""

    original: str
    rewrite: str


PAIRS: dict[str, Pair] = {
    "prose": Pair(
        "The council of Leeds approved the bicycle lanes in 2021 because residents asked for safer streets. "
        "Most people "
        "supported the plan, and accidents dropped by 14 percent within a year. Shops on the street gained as well.",
        "Because residents wanted streets to be safer, the council of Leeds gave its approval to the bicycle lanes in "
        "2021. The plan had the support of most people; within a year there were 14 percent fewer accidents, and shops "
        "along the street profited too.",
    ),
    "paragraphs": Pair(
        "Remote work saves time. Nobody has to sit in traffic, and meetings start when they should.\n\n"
        "It also has a price. New colleagues learn slowly, because they see only a screen.\n\n"
        "Two days in the office would be a fair compromise for everyone.",
        "Working remotely is a time saver: no one sits in traffic any more, and meetings begin on time.\n\n"
        "There is a price for it, however. Those who are new learn slowly, since a screen is all they see.\n\n"
        "For everyone, two office days would be a fair compromise.",
    ),
    "sure": Pair(
        "Sure! Here is how to keep basil alive: water it from below, cut it above a pair of leaves, and give it "
        "six hours "
        "of light. A cold window kills it within days.",
        "Of course! Here is how basil stays alive: give it water from below and six hours of light, and always "
        "cut above "
        "a pair of leaves. Within days a cold window will kill it.",
    ),
    "recipe": Pair(
        "Here is the recipe:\n\n1. Rinse 200 grams of lentils.\n2. Simmer them with onion for 25 minutes.\n3. "
        "Add lemon "
        "juice.\n\nEnjoy your soup!",
        "Here's the recipe:\n\n1. Wash 200 grams of lentils.\n2. Cook them gently with onion for 25 "
        "minutes.\n3. Put in "
        "the juice of a lemon.\n\nHave a good soup!",
    ),
    "json": Pair(
        '{"title": "Uniforms", "claim": "Uniforms reduce bullying at school.", "reasons": ["nobody is judged by '
        'shoes"]}',
        '{"title": "Uniforms", "claim": "There is less bullying at school with uniforms.", "reasons": ["shoes judge no '
        'one"]}',
    ),
    "code": Pair(
        "Use a loop to add the numbers:\n\n```python\ntotal = 0\nfor n in numbers:\n    total += n\n```\n\nThe "
        "sum is then "
        "in `total`.",
        "The numbers are added with a loop:\n\n```python\ntotal = 0\nfor n in numbers:\n    total += "
        "n\n```\n\nAfterwards "
        "`total` holds the sum.",
    ),
    "list": Pair(
        "- Arrive 10 minutes early\n- Bring a copy of your resume\n- Do not speak badly of a former employer",
        "- Be there 10 minutes ahead of time\n- Have a copy of your resume with you\n- Say nothing bad of a former "
        "employer",
    ),
    "dialogue": Pair(
        "“Where were you?” asked Maria. “I waited for two hours.”\n“The train stood still near York,” said Tom, "
        "“and my "
        "phone was dead.”\n“You could have walked.”",
        "“Where have you been?” Maria asked. “Two hours I waited.”\n“Near York the train did not move,” Tom said, “and "
        "the phone had died.”\n“Walking was possible.”",
    ),
    "refusal": Pair(
        "I'm sorry, but I cannot help with picking the lock of a neighbour's door. Entering a home without consent is "
        "against the law, and it frightens people. If you are locked out yourself, call a locksmith.",
        "I am sorry, but picking the lock of a neighbour's door is something I cannot help with. It is illegal "
        "to enter a "
        "home without consent, and people are frightened by it. Call a locksmith if you have locked yourself out.",
    ),
    "sentence": Pair(
        "Bees find their way home by the position of the sun.",
        "It is by the position of the sun that bees find the way back home.",
    ),
    "quoted": Pair(
        '"Never bring a knife to the table of a man who has not asked you to sit, my grandfather used to say."',
        '"At the table of a man who did not ask you to sit, never bring a knife, as my grandfather would say."',
    ),
    "german": Pair(
        "Der Stadtrat von Lübeck hat im Jahr 2019 neue Radwege beschlossen, weil die Straßen nicht sicher "
        "waren. Seitdem "
        "gibt es weniger Unfälle, und die Läden haben mehr Kunden als zuvor.",
        "Weil die Straßen nicht sicher waren, beschloss der Stadtrat von Lübeck 2019 neue Radwege. Die Zahl der "
        "Unfälle "
        "ist seitdem kleiner, und in die Läden kommen mehr Kunden als zuvor.",
    ),
    "letter": Pair(
        "Dear Ms. Okafor,\n\nthe parcel left our warehouse in Hamburg on Monday and should reach you within 5 "
        "days.\n\nLet "
        "me know if it does not arrive.\n\nBest regards\nJonas Weber",
        "Dear Ms. Okafor,\n\non Monday the parcel left our Hamburg warehouse; within 5 days it should be with "
        "you.\n\nLet "
        "me know if it fails to arrive.\n\nKind regards\nJonas Weber",
    ),
    "offer": Pair(
        "Basil needs six hours of light and water from below. Let me know if you need more help!",
        "Six hours of light and water from below are what basil needs. Tell me if more help is needed!",
    ),
    "unfinished": Pair(
        "Volcanoes form where plates of the crust move apart or collide. Magma rises through cracks, and gas drives it "
        "upwards. Some volcanoes sleep for centuries before they erupt again, and people build villages on "
        "their slopes "
        "because the soil is fertile. Mount Etna, for example, has farms, vineyards and small towns up to a height of",
        "Where plates of the crust collide or move apart, volcanoes form. Through cracks the magma rises, "
        "driven upwards "
        "by gas. For centuries some volcanoes sleep before they erupt again, and since the soil is fertile, "
        "people build "
        "villages on their slopes. Mount Etna, to give an example, has vineyards, farms and small towns up to a "
        "height of",
    ),
}


class Way(NamedTuple):
    """One way to misbehave."""

    category: str
    happens: str
    template: str
    shape: str = "prose"

    def returned(self, pair: Pair) -> str:
        """Say what a writer returns that should have returned the rewrite."""
        return misbehaved(self.template, original=pair.original, text=pair.rewrite)


def misbehaved(template: str, *, original: str, text: str, brief: str = BRIEF) -> str:
    """Put a text and its original into a template."""
    middle = text.find(" ", len(text) // 2)
    middle = middle if middle > 0 else len(text) // 2
    cut = next((place for place in range(int(0.6 * len(text)), 1, -1) if text[place - 2 : place].isalpha()), 1)
    parts = {
        "§T": text,
        "§J": json.dumps(text, ensure_ascii=False)[1:-1],
        "§P": repr(text),
        "§2": text.replace("\n", "\n  "),
        "§4": text.replace("\n", "\n    "),
        "§Q": text.replace("\n", "\n> "),
        "§H": text[: cut - 1],
        "§A": text[:middle].rstrip(),
        "§B": text[middle:].lstrip(),
        "§I": max((line for line in brief.split("\n") if line not in original), key=len, default=""),
        "§O": original,
        "§K": json.dumps(original, ensure_ascii=False)[1:-1],
    }
    pieces = template.split("§")
    return pieces[0] + "".join(parts[f"§{piece[0]}"] + piece[1:] for piece in pieces[1:])


_ASIDE_REMARK = "opening remark of the generator"
_CLOSING = "closing remark of the generator"
_WITHIN = "remark within the text"

_FIRST: tuple[Way, ...] = (
    # Prefaces
    Way("preface", UNWRAP, "Sure! Here is the rewritten text:\n\n§T"),
    Way("preface", UNWRAP, "Sure! Here is the rewritten text:\n\n§T", "sure"),
    Way("preface", UNWRAP, "Sure! Here is the rewritten text: §T", "sure"),
    Way("preface", UNWRAP, "Certainly! Below is a paraphrased version that keeps every fact:\n\n§T", "list"),
    Way("preface", UNWRAP, "Here's the reworded passage:\n§T", "dialogue"),
    Way("preface", UNWRAP, "Of course. Here's the text, rewritten as you asked:\n\n§T", "quoted"),
    Way("preface", UNWRAP, "Okay, here's a rephrased version of your text: §T", "sentence"),
    Way("preface", UNWRAP, "Rewritten: §T", "refusal"),
    Way("preface", UNWRAP, "Rewritten version — §T"),
    Way("preface", UNWRAP, "Response: §T"),
    Way("preface", UNWRAP, "Assistant: §T", "paragraphs"),
    Way("preface", UNWRAP, "Final answer:\n\n§T", "unfinished"),
    Way("preface", UNWRAP, "Here you go:\n\n§T", "letter"),
    Way("preface", UNWRAP, "As requested, a version in other words:\n\n§T", "code"),
    Way("preface", UNWRAP, "I've rewritten the text below while keeping all the numbers.\n\n§T", "paragraphs"),
    Way("preface", UNWRAP, "Absolutely! I'd be happy to help with that. Here is the condensed version:\n\n§T"),
    Way("preface", UNWRAP, "Great! Here is the longer version of the response:\n\n§T", "recipe"),
    Way("preface", UNWRAP, "Thank you for sharing your text! Here's a paraphrase:\n\n§T", "sure"),
    Way("preface", UNWRAP, "Hier ist der umformulierte Text:\n\n§T"),
    Way("preface", UNWRAP, "Natürlich! Hier ist die überarbeitete Fassung:\n\n§T", "german"),
    Way("preface", UNWRAP, "Gerne. Umgeschriebener Text: §T", "german"),
    Way("preface", UNWRAP, "Bien sûr ! Voici le texte réécrit :\n\n§T", "list"),
    Way("preface", UNWRAP, "Voici une version reformulée :\n§T"),
    Way("preface", UNWRAP, "¡Claro! Aquí tienes el texto reescrito:\n\n§T"),
    Way("preface", UNWRAP, "Por supuesto, a continuación la versión parafraseada:\n\n§T", "sentence"),
    Way("preface", UNWRAP, "Ecco il testo riscritto:\n\n§T", "paragraphs"),
    Way("preface", UNWRAP, "Certo! Di seguito la versione riformulata:\n§T"),
    Way("preface", UNWRAP, "Claro! Aqui está o texto reescrito:\n\n§T", "dialogue"),
    Way("preface", UNWRAP, "Hier is de herschreven tekst:\n\n§T"),
    Way("preface", UNWRAP, "好的，以下是改写后的文本：\n\n§T"),
    Way("preface", UNWRAP, "以下是改写版本：§T", "sentence"),
    Way("preface", UNWRAP, "もちろんです。以下が書き換えた文章です：\n\n§T"),
    Way("preface", UNWRAP, "Конечно! Вот переписанный текст:\n\n§T"),
    Way("preface", UNWRAP, "Вот перефразированная версия: §T", "sentence"),
    Way("preface", UNWRAP, "물론입니다! 다음은 다시 작성한 텍스트입니다:\n\n§T"),
    Way("preface", UNWRAP, "Oto przeredagowany tekst:\n\n§T"),
    Way("preface", UNWRAP, "Sure!\n\n§T", "prose"),
    Way("preface", UNWRAP, "Understood.\n\n§T", "list"),
    Way("preface", _ASIDE_REMARK, "Certainly, §T"),
    Way("preface", _ASIDE_REMARK, "I have rewritten it as follows. §T"),
    Way("preface", _ASIDE_REMARK, "Sure, no problem, so here goes with a rewritten text for you. §T", "paragraphs"),
    Way("preface", UNWRAP, "Sure, here you go.\n§T", "sure"),
    Way("preface", UNWRAP, "You could say: §T"),
    Way("preface", UNWRAP, "How about this: §T", "sure"),
    Way("preface", UNWRAP, "Aquí tienes: §T"),
    Way("preface", UNWRAP, "(Rewritten) §T"),
    # Headings and labels
    Way("heading", UNWRAP, "**Rewritten text:**\n\n§T"),
    Way("heading", UNWRAP, "**Rewritten text:** §T", "german"),
    Way("heading", UNWRAP, "### Response\n§T"),
    Way("heading", UNWRAP, "# Paraphrase\n\n§T", "list"),
    Way("heading", UNWRAP, "## ✨ Rewritten Version ✨\n\n§T", "paragraphs"),
    Way("heading", UNWRAP, "__Final version__\n\n§T"),
    Way("heading", UNWRAP, "[Rewritten response]\n§T"),
    Way("heading", UNWRAP, "TEXT:\n§T", "dialogue"),
    Way("heading", UNWRAP, "*Output*\n\n§T", "sentence"),
    Way("heading", UNWRAP, "---\n**Paraphrased version**\n---\n§T", "letter"),
    Way("heading", UNWRAP, "Umformulierte Fassung:\n\n§T", "german"),
    Way("heading", UNWRAP, "【改写】\n§T"),
    Way("heading", "a heading that the original has not", "# Safer streets in Leeds\n\n§T"),
    # Closing remarks
    Way("remark", UNWRAP, "§T\n\nLet me know if you'd like another version!"),
    Way("remark", UNWRAP, "§T\n\nLet me know if you'd like another version!", "letter"),
    Way("remark", UNWRAP, "§T\n\nI hope this helps!", "sure"),
    Way("remark", UNWRAP, "§T\n\n(Word count: 42)"),
    Way("remark", UNWRAP, "§T\n\n[Word count: 42]", "list"),
    Way("remark", UNWRAP, "§T (42 words)"),
    Way("remark", UNWRAP, "§T\n\nNote: I kept the numbers and names of the original."),
    Way(
        "remark", UNWRAP, "§T\n\n---\n\n**Changes made:**\n- replaced some verbs\n- joined two sentences", "paragraphs"
    ),
    Way("remark", UNWRAP, "§T\n\nFeel free to ask for further adjustments.", "code"),
    Way("remark", UNWRAP, "§T\n\nWould you like me to make it shorter?", "dialogue"),
    Way("remark", UNWRAP, "§T\n\n*This version keeps the meaning of the original text.*"),
    Way("remark", UNWRAP, "§T\n\nExplanation: synonyms were used and clauses reordered.", "refusal"),
    Way("remark", UNWRAP, "§T\n\nIch hoffe, das hilft! Lassen Sie mich wissen, ob etwas fehlt.", "german"),
    Way("remark", UNWRAP, "§T\n\nN'hésitez pas à me dire si vous souhaitez une autre version."),
    Way("remark", UNWRAP, "§T\n\nEspero que esto te ayude."),
    Way("remark", UNWRAP, "§T\n\nFammi sapere se vuoi altre modifiche."),
    Way("remark", UNWRAP, "§T\n\nEspero que isso ajude! Me avise se quiser mudanças."),
    Way("remark", UNWRAP, "§T\n\nLaat het me weten als je iets anders wilt."),
    Way("remark", UNWRAP, "§T\n\n希望这对您有帮助！"),
    Way("remark", UNWRAP, "§T\n\n（如需修改，请告诉我。）"),
    Way("remark", UNWRAP, "§T\n\nご不明な点があればお知らせください。"),
    Way("remark", UNWRAP, "§T\n\nНадеюсь, это поможет! Дайте знать, если нужны правки."),
    Way("remark", _CLOSING, "§T I hope this helps!"),
    Way("remark", _CLOSING, "§T Let me know if you need anything else changed.", "paragraphs"),
    Way("remark", UNWRAP, "Here is the text:\n\n§T\n\nLet me know if this works for you.", "sure"),
    Way("remark", _CLOSING, "§A [Note: I changed the wording of the next part] §B"),
    Way("remark", "part of the text was left out", "§A (the rest of the text remains the same)."),
    Way("remark", _WITHIN, "§A As requested, the rewritten part follows. §B", "paragraphs"),
    Way("remark", UNWRAP, "§T\n\nLet me know if you need more help!", "offer"),
    Way("remark", _CLOSING, "§T Let me know if you need more help!", "offer"),
    Way("remark", _CLOSING, "§T I hope this helps!", "offer"),
    Way("remark", _CLOSING, "§T Is this what you wanted?"),
    Way("remark", _CLOSING, "§T The meaning of the original was kept."),
    Way("remark", "a paragraph that has nothing to do", "§T\n\nCheers!"),
    # JSON
    Way("json", UNWRAP, '{"text": "§J", "ok": true}'),
    Way("json", UNWRAP, '{"text": "§J", "ok": true}', "quoted"),
    Way("json", UNWRAP, '{"text": "§J", "ok": true}', "json"),
    Way("json", UNWRAP, '{\n  "rewritten_text": "§J"\n}', "paragraphs"),
    Way("json", UNWRAP, '{"rewrittenText":"§J","wordCount":40,"language":"en"}', "list"),
    Way("json", UNWRAP, '[{"text": "§J"}]'),
    Way("json", UNWRAP, '["§J"]', "sentence"),
    Way("json", UNWRAP, '"§J"'),
    Way("json", UNWRAP, '"§J"', "code"),
    Way("json", UNWRAP, '{"result": {"output": {"text": "§J"}}, "status": "success"}', "dialogue"),
    Way("json", UNWRAP, '{"choices": [{"message": {"role": "assistant", "content": "§J"}, "finish_reason": "stop"}]}'),
    Way("json", UNWRAP, '{"reasoning": "The text is about lanes, so I keep the year.", "answer": "§J"}'),
    Way("json", UNWRAP, '{"original": "§K", "rewritten": "§J"}', "paragraphs"),
    Way("json", UNWRAP, '```json\n{"response": "§J"}\n```', "sure"),
    Way("json", UNWRAP, 'Here is the JSON:\n{"paraphrase": "§J", "notes": "kept all facts"}'),
    Way("json", UNWRAP, '{"text": "§J", "ok": true}\n\nI hope this is what you need!'),
    Way("json", UNWRAP, "{'text': §P, 'ok': True}", "refusal"),
    Way("json", UNWRAP, "text = §P"),
    Way("json", UNWRAP, "print(§P)", "german"),
    Way("json", UNWRAP, 'data: {"delta": {"content": "§J"}}'),
    Way("json", UNWRAP, '{"version": 1, "text": "§J", "tone": "neutral", "changes": ["verbs", "order"]}'),
    Way("json", "JSON without one certain text", '{"part1": "§A", "part2": "§B"}'),
    Way("json", "JSON without one certain text", '["§A", "§B"]'),
    Way("json", "JSON without one certain text", '{"error": "content policy", "text": null}'),
    Way("json", "JSON without one certain text", '{"text_a": "§J", "text_b": "§K"}'),
    Way("json", "a piece of JSON", '{"text": "§J"'),
    Way("json", "a piece of JSON", '{"text": "§J", "ok": tr'),
    Way("json", "a piece of JSON", '§T", "ok": true}'),
    Way("json", "a piece of JSON", '"text": "§J", "ok": true'),
    Way("json", "an escape left in", "§A\\n\\n§B"),
    Way("json", "JSON of another form than the original's", '{"summary": "uniforms are good for everyone"}', "json"),
    # YAML
    Way("yaml", UNWRAP, "text: |\n  §2\nok: true"),
    Way("yaml", UNWRAP, "rewritten: >-\n  §2", "sentence"),
    Way("yaml", UNWRAP, '---\nresponse: "§J"\nstatus: done\n---', "german"),
    Way("yaml", UNWRAP, "text: '§T'", "prose"),
    Way("yaml", UNWRAP, "```yaml\nrewritten_text: |-\n  §2\nnotes: kept all numbers\n```", "paragraphs"),
    Way("yaml", UNWRAP, "output:\n  text: |\n    §4\n  ok: true", "list"),
    Way("json", UNWRAP, "const text = `§T`;"),
    Way("quotes", UNWRAP, "| Text |\n|---|\n| §T |"),
    # Code fences
    Way("fence", UNWRAP, "```\n§T\n```"),
    Way("fence", UNWRAP, "```text\n§T\n```", "list"),
    Way("fence", UNWRAP, "```markdown\n§T\n```", "code"),
    Way("fence", UNWRAP, "~~~\n§T\n~~~", "german"),
    Way("fence", UNWRAP, "Here is the rewritten text:\n\n```\n§T\n```\n\nLet me know if you need changes.", "dialogue"),
    Way("fence", UNWRAP, "````\n```\n§T\n```\n````"),
    Way("fence", UNWRAP, "`§T`", "sentence"),
    Way("fence", UNWRAP, "```§T```", "sentence"),
    Way("fence", "a code fence without an end, or without a beginning", "```\n§T"),
    Way("fence", "a code fence without an end, or without a beginning", "§T\n```", "paragraphs"),
    # Quotation marks and other marks around everything
    Way("quotes", UNWRAP, '"§T"'),
    Way("quotes", UNWRAP, "“§T”", "list"),
    Way("quotes", UNWRAP, "'§T'", "sentence"),
    Way("quotes", UNWRAP, "„§T“", "german"),
    Way("quotes", UNWRAP, "« §T »"),
    Way("quotes", UNWRAP, "「§T」"),
    Way("quotes", UNWRAP, '"""\n§T\n"""', "paragraphs"),
    Way("quotes", UNWRAP, "**§T**"),
    Way("quotes", UNWRAP, "> §Q", "paragraphs"),
    Way("quotes", UNWRAP, "(§T)", "sentence"),
    Way("quotes", UNWRAP, "$§T$"),
    Way("quotes", UNWRAP, "1. §T"),
    Way("quotes", UNWRAP, 'Rewritten text: "§T"'),
    Way("quotes", "a mark without its other half", '"§T'),
    Way("quotes", "a mark without its other half", "§T”", "paragraphs"),
    # Tags and markers
    Way("tags", UNWRAP, "<rewritten>§T</rewritten>"),
    Way("tags", UNWRAP, "<text>\n§T\n</text>", "dialogue"),
    Way("tags", UNWRAP, "<response>\n<text>§T</text>\n</response>", "german"),
    Way("tags", UNWRAP, "<original>§O</original>\n<rewritten>§T</rewritten>"),
    Way("tags", UNWRAP, "My answer is below.\n<rewritten_text>§T</rewritten_text>\nThat's it.", "list"),
    Way("tags", UNWRAP, "=====BEGIN REWRITTEN=====\n§T\n=====END REWRITTEN=====", "letter"),
    Way("tags", UNWRAP, "[START]\n§T\n[END]"),
    Way("tags", UNWRAP, "<|im_start|>assistant\n§T<|im_end|>", "paragraphs"),
    Way("tags", UNWRAP, "§T</s>"),
    Way("tags", UNWRAP, "[INST] §T [/INST]", "sentence"),
    Way("tags", UNWRAP, '<?xml version="1.0"?>\n<output><![CDATA[§T]]></output>'),
    Way("tags", UNWRAP, "\\boxed{§T}", "sentence"),
    Way("tags", "marker of the prompt left in", "=====BEGIN ORIGINAL=====\n§T"),
    Way("tags", "tag left in", "<p>§A</p>\n<p>§B</p>"),
    # Reasoning
    Way("reasoning", UNWRAP, "<think>Shorter? No, same length.</think>\n\n§T"),
    Way("reasoning", UNWRAP, "<thinking>\nKeep 2021.\n</thinking>\n§T", "list"),
    Way("reasoning", UNWRAP, "I should keep the year.\n</think>\n\n§T", "german"),
    Way("reasoning", UNWRAP, '{"text": "<think>hm</think>§J"}'),
    Way("reasoning", "reasoning without an end", "<think>I wonder how to begin. §T"),
    Way("reasoning", _ASIDE_REMARK, "Let me think about this. The text has three sentences. §T"),
    Way("reasoning", _ASIDE_REMARK, "The user wants me to rewrite the text. I should keep 2021. §T"),
    Way(
        "reasoning", "reasoning left in", "Okay, so the council and the lanes have to stay. I could begin with why. §T"
    ),
    Way(
        "reasoning", "reasoning left in", "Reasoning: the facts must stay, so only the order changes.\n\n§T", "sentence"
    ),
    Way("reasoning", "reasoning left in", "Step 1: Identify the claims.\nStep 2: Reorder them.\n\n§T", "paragraphs"),
    Way("reasoning", "reasoning left in", "Zuerst muss ich den Satzbau ändern. §T", "german"),
    Way("reasoning", "reasoning left in", "Key facts: Leeds, 2021, 14 percent. Final: §T"),
    Way("reasoning", "reasoning left in", "Hmm. Maybe start with residents.\n\n§T"),
    Way("reasoning", "reasoning left in", "The text has two sentences about Leeds. Keep both.\n\n§T"),
    # Refusals
    Way("refusal", "refusal", "I'm sorry, but I can't help with that."),
    Way("refusal", "refusal", "I cannot assist with rewriting this content, because it may be harmful."),
    Way("refusal", "refusal", "As an AI language model, I'm not able to paraphrase this text.", "list"),
    Way("refusal", "refusal", "I can't assist with rewriting that text.", "refusal"),
    Way("refusal", "refusal", "Es tut mir leid, aber dabei kann ich Ihnen nicht helfen.", "german"),
    Way("refusal", "refusal", "Je suis désolé, mais je ne peux pas vous aider avec cette demande."),
    Way("refusal", "refusal", "Lo siento, pero no puedo ayudar con esa solicitud."),
    Way("refusal", "refusal", "Mi dispiace, ma non posso aiutarti con questa richiesta."),
    Way("refusal", "refusal", "Desculpe, mas não posso ajudar com esse pedido."),
    Way("refusal", "refusal", "Het spijt me, maar daar kan ik je niet bij helpen."),
    Way("refusal", "refusal", "抱歉，我无法协助完成这个请求。"),
    Way("refusal", "refusal", "申し訳ありませんが、そのご依頼にはお応えできません。"),
    Way("refusal", "refusal", "Извините, но я не могу помочь с этим запросом."),
    Way("refusal", "refusal", "Je suis désolé, mais je ne peux pas vous aider.", "refusal"),
    Way("refusal", "refusal", "I'm sorry, but I cannot tell you how bees find their way home by the sun.", "sentence"),
    Way("refusal", "refusal", "Ich kann Ihnen bei den Radwegen von Lübeck nicht helfen.", "german"),
    Way("refusal", "another language than the original's", "Questa richiesta non è per me, ma si può fare. §A. §B"),
    # Echo
    Way("echo", "echo of the original", "§O\n\n§T"),
    Way("echo", "echo of the original", "§T\n\n§O", "german"),
    Way("echo", "echo of the original", "§O -> §T"),
    Way("echo", UNWRAP, "Original text:\n§O\n\nRewritten text:\n§T"),
    Way("echo", UNWRAP, "**Original:** §O\n\n**Rewritten:** §T", "sentence"),
    Way("echo", UNWRAP, "Answer with the rewritten text and nothing else.\n§T"),
    Way("echo", _ASIDE_REMARK, "§I\n\n§T"),
    Way("echo", "marker of the prompt left in", "=====BEGIN ORIGINAL=====\n§O\n=====END ORIGINAL=====\n\n§T"),
    # Several texts
    Way("several", "several texts", "Option 1: §T\n\nOption 2: §A, in short."),
    Way("several", "several texts", "**Version A**\n§T\n\n**Version B**\n§A"),
    Way("several", "several texts", "§T\n\nOR\n\n§A", "paragraphs"),
    Way("several", "a line that separates texts", "§T\n\n---\n\n§A"),
    Way("several", "several texts", "Variante 1: §T\n\nVariante 2: §A", "german"),
    Way("several", "the text, twice", "§T\n\n§T"),
    Way("several", "the text, twice", "§T\n§T", "sentence"),
    Way("several", "the text, twice", "Draft:\n\n§T\n\nRevised:\n\n§T"),
    # Truncation
    Way("truncation", "truncated", "§H..."),
    Way("truncation", "truncated", "§H…", "german"),
    Way("truncation", "truncated", "§H"),
    Way("truncation", "truncated", "§H", "german"),
    Way("truncation", "truncated", "§H", "unfinished"),
    Way("truncation", "truncated", "§A,", "paragraphs"),
    Way("truncation", "truncated", "Here is the rewritten text:\n\n§H"),
    Way("truncation", "a piece of JSON", '{"text": "§H'),
    Way("truncation", "part of the text was left out", "§A [continued below]", "refusal"),
)
_LATER: tuple[Way, ...] = (
    # In the manner of chat assistants
    Way("preface", UNWRAP, "Absolutely — here's a reworked version that says the same thing in different words:\n\n§T"),
    Way("preface", UNWRAP, "Here's your paraphrased text! 😊\n\n§T", "letter"),
    Way("preface", UNWRAP, "Sure thing! Here's a more concise take on it:\n\n§T", "paragraphs"),
    Way("preface", UNWRAP, "Got it. Rephrased below:\n\n§T", "dialogue"),
    Way("preface", UNWRAP, "No problem! The revised passage reads:\n\n§T", "german"),
    Way("preface", UNWRAP, "✅ **Rewritten Response:**\n\n§T", "refusal"),
    Way("preface", UNWRAP, "**Paraphrase (same meaning, new wording):**\n\n§T", "sure"),
    Way("preface", UNWRAP, "A rewritten version of the text is provided below.\n\n§T", "recipe"),
    Way("preface", UNWRAP, "REWRITTEN TEXT\n==============\n\n§T", "sentence"),
    Way("preface", UNWRAP, "Output: §T", "unfinished"),
    Way("preface", UNWRAP, "Below you will find the expanded text.\n\n---\n\n§T"),
    Way("preface", UNWRAP, "The following is a semantically equivalent paraphrase of the input:\n§T", "list"),
    Way("preface", UNWRAP, "Selbstverständlich, hier kommt der neu formulierte Text:\n\n§T", "german"),
    Way("preface", UNWRAP, "D'accord, voici la version remaniée :\n\n§T", "letter"),
    Way("preface", UNWRAP, "Con gusto. Esta es la versión reescrita:\n\n§T", "quoted"),
    Way("preface", UNWRAP, "Va bene, ecco la parafrasi richiesta:\n\n§T", "code"),
    Way("preface", UNWRAP, "Com certeza! Segue o texto reformulado:\n\n§T", "recipe"),
    Way("preface", UNWRAP, "Natuurlijk, hieronder de herschreven versie:\n\n§T", "dialogue"),
    Way("preface", UNWRAP, "当然可以！改写如下：\n\n§T", "list"),
    Way("preface", UNWRAP, "承知しました。言い換えた文章は次のとおりです：\n\n§T", "letter"),
    Way("preface", UNWRAP, "Хорошо, ниже приведён переработанный вариант:\n\n§T", "paragraphs"),
    Way("preface", UNWRAP, "İşte yeniden yazılmış metin:\n\n§T"),
    Way("preface", UNWRAP, "Här är den omskrivna texten:\n\n§T", "sentence"),
    Way("preface", _CLOSING, "Okay! §T Hope you like it."),
    # Closing remarks
    Way(
        "remark", UNWRAP, "§T\n\nPlease let me know if you would like any adjustments to tone or length.", "unfinished"
    ),
    Way("remark", UNWRAP, "§T\n\n---\n*Word count: 58 (original: 52)*"),
    Way("remark", UNWRAP, "§T\n\n**Note:** All numbers and names were preserved.", "german"),
    Way(
        "remark", UNWRAP, "§T\n\nKey changes:\n1. Active voice became passive.\n2. Two clauses were merged.", "dialogue"
    ),
    Way("remark", UNWRAP, "§T\n\nThis paraphrase retains the original's claims, numbers and tone.", "refusal"),
    Way("remark", UNWRAP, "§T\n\nIs there anything else you'd like me to rephrase?", "sure"),
    Way("remark", UNWRAP, "§T\n\nHinweis: Die Zahlen wurden nicht verändert.", "german"),
    Way("remark", UNWRAP, "§T\n\nRemarque : j'ai conservé tous les chiffres.", "list"),
    Way("remark", UNWRAP, "§T\n\nSi necesitas más cambios, dímelo. ¡Espero que te sirva!", "paragraphs"),
    Way("remark", UNWRAP, "§T\n\nSe vuoi, posso accorciarlo ancora.", "sentence"),
    Way("remark", UNWRAP, "§T\n\nSe precisar de ajustes, é só avisar.", "dialogue"),
    Way("remark", UNWRAP, "§T\n\nOpmerking: de cijfers zijn ongewijzigd.", "code"),
    Way("remark", UNWRAP, "§T\n\n注：保留了所有数字。", "sure"),
    Way("remark", UNWRAP, "§T\n\n必要であれば、さらに調整いたします。"),
    Way("remark", UNWRAP, "§T\n\nПримечание: числа сохранены.", "refusal"),
    Way("remark", UNWRAP, "§T\n\n— Rewritten by your AI assistant", "letter"),
    # Data
    Way("json", UNWRAP, '{"rewrite":"§J","preserved":["numbers","names"],"confidence":0.93}', "dialogue"),
    Way("json", UNWRAP, '{\n  "task": "paraphrase",\n  "output": "§J",\n  "done": true\n}', "letter"),
    Way("json", UNWRAP, '{"role": "assistant", "content": [{"type": "text", "text": "§J"}]}', "recipe"),
    Way("json", "a code fence", 'Sure! ```json\n{"text": "§J"}\n``` Let me know!', "sentence"),
    Way("json", UNWRAP, '{"thoughts": "I keep the facts.", "final_text": "§J"}', "unfinished"),
    Way("json", UNWRAP, '{"data": {"attributes": {"paraphrased_text": "§J"}, "id": "17"}}', "german"),
    Way("json", UNWRAP, "{'rewritten_text': §P}", "list"),
    Way("json", UNWRAP, 'return "§J";', "sure"),
    Way("json", UNWRAP, '{"answer": "```\\n§J\\n```"}'),
    Way("json", "JSON without one certain text", '{"sentences": ["§A", "§B"], "n": 2}', "paragraphs"),
    Way("json", "JSON with a title beside the text", '{"title": "Bicycle lanes", "text": "§J"}'),
    Way("json", "a piece of JSON", '{"text": "§T", "ok": true', "dialogue"),
    Way("json", "a piece of JSON", '§T"}', "german"),
    Way("yaml", UNWRAP, "rewritten_text: |\n  §2\nword_count: 41\nlanguage: en", "letter"),
    Way("yaml", UNWRAP, "---\ntext: |-\n  §2\n...", "dialogue"),
    Way("yaml", UNWRAP, 'status: ok\ntext: "§J"', "recipe"),
    # Fences, marks, tags
    Way("fence", UNWRAP, "```plaintext\n§T\n```\n", "dialogue"),
    Way("fence", UNWRAP, "~~~text\n§T\n~~~", "list"),
    Way("fence", UNWRAP, "Certainly!\n\n```md\n§T\n```\n\nThis keeps the meaning of the original text.", "paragraphs"),
    Way("fence", "a code fence without an end, or without a beginning", "```markdown\n§T", "list"),
    Way("quotes", UNWRAP, "‘§T’", "german"),
    Way("quotes", UNWRAP, "《§T》", "sentence"),
    Way("quotes", UNWRAP, "*§T*", "sentence"),
    Way("quotes", UNWRAP, "The rewritten text: “§T”", "refusal"),
    Way("quotes", UNWRAP, "<<§T>>"),
    Way("tags", UNWRAP, "<answer>\n§T\n</answer>", "code"),
    Way("tags", UNWRAP, "<paraphrase>§T</paraphrase> <!-- same meaning -->", "list"),
    Way("tags", UNWRAP, "<html><body><p>§T</p></body></html>", "sentence"),
    Way("tags", UNWRAP, "*** BEGIN TEXT ***\n§T\n*** END TEXT ***", "paragraphs"),
    Way("tags", UNWRAP, "§T<|eot_id|>", "german"),
    Way("tags", UNWRAP, "<start_of_turn>model\n§T<end_of_turn>", "dialogue"),
    Way("tags", UNWRAP, "<final_answer>§T</final_answer>", "refusal"),
    Way("tags", "tag left in", "§A<br/>§B"),
    # Reasoning, refusals, echo, several, cut
    Way("reasoning", UNWRAP, "<reasoning>Three claims. Keep 14.</reasoning>\n<answer>§T</answer>", "prose"),
    Way("reasoning", UNWRAP, "<|channel|>analysis<|message|>Keep it.<|end|><|channel|>final<|message|>§T", "list"),
    Way("reasoning", _ASIDE_REMARK, "We need to rewrite the text with the same meaning. Keep the year 2021. §T"),
    Way(
        "reasoning", "reasoning left in", "Hmm, the tone is informal.\n\nWait, I should keep the names.\n\n§T", "letter"
    ),
    Way("reasoning", "reasoning left in", "Analysis: three claims, one number.\n\nFinal: §T", "paragraphs"),
    Way("reasoning", "another language than", "首先，我需要理解原文。§T", "list"),
    Way(
        "refusal", "refusal", "I won't be able to help with rewriting this one, since it could cause harm.", "dialogue"
    ),
    Way("refusal", "refusal", "Sorry, I can't comply with this request.", "code"),
    Way("refusal", "refusal", "I must decline to paraphrase this material.", "paragraphs"),
    Way("refusal", "refusal", "Leider kann ich diese Anfrage nicht bearbeiten.", "german"),
    Way("refusal", "refusal", "Je regrette, mais il m'est impossible de traiter cette demande.", "list"),
    Way("refusal", "refusal", "Como modelo de lenguaje, no puedo realizar esta tarea.", "sure"),
    Way("refusal", "refusal", "对不起，我不能帮助处理这个内容。", "letter"),
    Way("refusal", "refusal", "К сожалению, я не могу выполнить эту просьбу.", "sentence"),
    Way("refusal", "refusal", "죄송하지만 도와드릴 수 없습니다.", "german"),
    Way("echo", UNWRAP, "Original: §O\nParaphrase: §T", "sentence"),
    Way("echo", "echo of the original", "§O\n\n→\n\n§T", "paragraphs"),
    Way("several", "several texts", "1. Version one: §T\n2. Version two: §A", "sentence"),
    Way("several", "several texts", "### Option A\n§T\n\n### Option B\n§A.", "german"),
    Way("several", "several texts", "§T\n\nAlternatively:\n\n§A.", "refusal"),
    Way("truncation", "truncated", "§H", "refusal"),
    Way("truncation", "truncated", "**Rewritten text:**\n\n§A and", "german"),
    Way("truncation", "truncated", "§A —"),
)


WAYS = (*_FIRST, *_LATER)
"""The later ones were written when the first were all in order, and in the manner of other writers."""
HONEST: tuple[Pair, ...] = (
    *PAIRS.values(),
    # Openings that look like prefaces and are none
    Pair("Sure, here's how to do it: boil the water first.", "Certainly, here's how it is done: first boil the water."),
    Pair(
        "Sure! I can do that. The train leaves at 9.", "Absolutely! That is something I can do. At 9 the train leaves."
    ),
    Pair("Okay, so what happened is that we lost the key.", "Okay, so this is what happened: the key was lost."),
    Pair(
        "Here are some tips for a job interview:\n\n1. Be early.\n2. Be honest.",
        "Here are a few tips for job interviews:\n\n1. Come early.\n2. Stay honest.",
    ),
    Pair(
        "There are three reasons. It is cheap, it is fast and it is quiet.",
        "There are three reasons:\n- it is cheap\n- it is fast\n- it is quiet.",
    ),
    Pair("This is a short walk through the woods.", "Here is a brief stroll through the woods."),
    Pair("The answer is no. Bees do not sleep in winter.", "No is the answer. In winter, bees do not sleep."),
    Pair("Answer: 42, because 6 times 7 is 42.", "Answer: it is 42, since 6 times 7 makes 42."),
    Pair("Response: the law was passed in 1990.", "Response: in 1990 the law was passed."),
    Pair("Title: My Dog\n\nMy dog is old and slow.", "Title: My Dog\n\nOld and slow is what my dog is."),
    Pair("# Bees\n\nBees fly far from home.", "# Bees\n\nFar from home is where bees fly."),
    Pair("**Uniforms** help pupils. They are cheap.", "**Uniforms** are of help to pupils. They cost little."),
    Pair("Great question! Whales are mammals.", "Great question! A whale is a mammal."),
    Pair("Thank you for your letter. We have read it.", "Thanks for your letter, which we have read."),
    Pair("Of course it rains in Bergen. It rains daily.", "It rains in Bergen, of course. Every day it does."),
    Pair("Yes, the bridge is safe. I checked it in May.", "Yes: the bridge is safe. It was checked by me in May."),
    Pair(
        "Sure, the train leaves at 9. Take platform 4.", "Certainly. The train departs at 9. Platform 4 is where to go."
    ),
    Pair("Sure, here is a poem:\n\nRoses are red.", "Sure! This is a poem:\n\nRed are the roses."),
    Pair(
        "Sure, here is a rewritten version:\n\nRoses are red.",
        "Sure! Here is a version rewritten:\n\nRed are the roses.",
    ),
    Pair("The answer is B.", "Answer: B."),
    # Texts about texts
    Pair("Customers want refunds, so send them.", "The user wants a refund, so send it."),
    Pair("The user wants a refund, so send it.", "A refund is what the user wants, so send it."),
    Pair("The author says bees fly far.", "The original author says that bees fly far."),
    Pair(
        "We should keep the book the way it was. The movie changed it too much.",
        "The original text of the book should be kept. The movie altered it too much.",
    ),
    Pair(
        "I think schools should keep phones. I changed my mind after reading the article.",
        "Schools should keep phones, I think. After reading the article I changed my answer.",
    ),
    Pair(
        "You should rewrite your essay, because the second version lost the main point.",
        "Your essay should be rewritten, since the main point got lost in the second version.",
    ),
    Pair("The original text of the treaty is in Paris.", "In Paris lies the treaty's original text."),
    Pair(
        "Here is the revised version of your email:\n\nDear Tom, I will be late on Friday.",
        "Here is your email in a revised version:\n\nDear Tom, on Friday I am going to be late.",
    ),
    Pair("A shorter version of the song was a hit in 1984.", "In 1984 the song's shorter version became a hit."),
    Pair("Note: the museum is closed on Monday.", "Note: on Monday the museum stays closed."),
    Pair("Please be careful with the acid. It burns.", "Note: be careful with the acid, for it burns."),
    Pair("Option 1: walk.\nOption 2: take the bus.", "Option 1: go on foot.\nOption 2: go by bus."),
    Pair("We tried version 2 of the app and it crashed.", "The app crashed when we tried version 2 of it."),
    # Closings that look like remarks and are none
    Pair("The soup keeps for 3 days. Let me know if you like it.", "For 3 days the soup keeps. Let me know if you do."),
    Pair("I hope this helps! Good luck with the exam.", "I hope that helps! All the best for the exam."),
    Pair(
        "I like dogs. If you have any questions about my dog, ask me.",
        "Dogs are what I like. If you have any questions about my dog, feel free to ask.",
    ),
    Pair(
        "Teachers work hard and I hope this helps you see why they need a rest in summer.",
        "Teachers work a lot, and I hope this helps you to see why summer must be a rest for them.",
    ),
    Pair("Would you like me to book a table for 4?", "Do you want me to book a table for 4?"),
    Pair("The form has 3 parts (see page 2).", "There are 3 parts to the form (see page 2)."),
    Pair("They left. (Nobody saw it.)", "They went away. (No one saw it.)"),
    # Refusals
    Pair("I cannot help with that request.", "That request is something I cannot help with."),
    Pair(
        "I'm sorry, but I can't write malware. Learn about defence instead.",
        "I am sorry, but writing malware is not something I will do. Study defence instead.",
    ),
    Pair(
        "As an AI language model, I have no opinion on the election of 2020.",
        "As a language model, I hold no opinion on the 2020 election.",
    ),
    Pair("I can't see why uniforms should help anybody.", "Why anybody should be helped by uniforms I can't see."),
    Pair(
        "Es tut mir leid, aber ich kann Ihnen das Rezept nicht geben.", "Das Rezept kann ich Ihnen leider nicht geben."
    ),
    Pair(
        "Der Zug ist spät und ich komme nicht pünktlich zur Arbeit.",
        "Ich kann nicht pünktlich zur Arbeit kommen, weil der Zug spät ist.",
    ),
    Pair("Je suis en retard et le train ne vient pas.", "Je ne peux pas être à l'heure, car le train ne vient pas."),
    Pair("下雨了，所以今天没去学校。", "今天下雨，我无法去学校。"),
    Pair("I am late because of the train and cannot come.", "I am sorry but I cannot come because the train is late."),
    Pair("Lo siento, no puedo ayudar con eso hoy.", "Lo siento mucho, hoy no puedo ayudar con eso."),
    # Quotations, code, data, layout
    Pair('"Nothing," she said, "was found."', '"She found," she said, "nothing at all."'),
    Pair("He said that it was late.", "“It is late,” he said, “and I am tired.”"),
    Pair("'Tis the season to be quiet, they said.", "'Tis a season for quiet, or so they said."),
    Pair("«Le train est parti», dit Marie.", "«Il est parti, le train», dit Marie."),
    Pair("```\nx = 1\n```", "```\nx = 1  # one\n```"),
    Pair("Use `x` or ```y``` in the middle of it.", "In the middle of it, `x` or ```y``` can be used."),
    Pair("```python\nprint(1)\n```\nThis prints 1.", "```python\nprint(1)\n```\n1 is what this prints."),
    Pair('["red", "green"]', '["green", "red"]'),
    Pair('["red cars", "green cars"]', '[\n  "cars in red",\n  "cars in green"\n]'),
    Pair('{"text": "Paris is in France.", "ok": true}', '{\n  "text": "In France is Paris.",\n  "ok": true\n}'),
    Pair(
        '{"claim": "Uniforms help.", "reasons": ["cheap"]}',
        '{\n  "claim": "Of help are uniforms.",\n  "reasons": [\n    "low cost"\n  ]\n}',
    ),
    Pair("{ x: 1 }", "{\n  x: 1\n}"),
    Pair("function f(){ return 1 }", "function f() {\n  return 1;\n}"),
    Pair("x = f(1, 2)", "x = f(\n  1,\n  2\n)"),
    Pair("#include <a.h>\nint main() { f(); } // greets", '#include <a.h>\nint main() {\n  puts("hi");\n}'),
    Pair("/* Say it loud and wait. */", "/*\nSay it loudly, then wait.\n*/"),
    Pair("It rains here in May 🙂🙂.", "It rains a lot in May here.\n🙂🙂"),
    Pair("The play ends (…).", "The play ends so:\n(…)"),
    Pair('{"answer": "Paris is the capital."}', '{"answer": "The capital is Paris."}'),
    Pair("text: |\n  It rained in May.\nok: true", "text: |\n  In May it rained.\nok: true"),
    Pair("<p>Bees fly far.</p>", "<p>Far is where bees fly.</p>"),
    Pair("> Bees fly far.\n> They sleep late.", "> Far is where bees fly.\n> Late they sleep."),
    Pair("- Wash the car\n- Feed the cat", "- Clean the car\n- Give the cat its food"),
    Pair("Wash it and dry it.", "1. Wash it.\n2. Dry it."),
    Pair("First. Wash it.\nThen. Dry it.", "1. Wash it, to begin.\n2. Dry it."),
    Pair("Five dollars is less than 6$", "$5 is less than 6$"),
    Pair("A cat | a dog", "| A cat | A dog |"),
    Pair("This is how you do it: boil the water.", "Here is how: the water is to be boiled."),
    Pair("Perhaps it rains. One could say it pours.", "It may rain: one could say that it pours."),
    Pair("Bees are small. Try to see one.", "Try this: see a bee. They are small."),
    Pair("Row, row, row your boat. Row, row, row your boat.", "Row your boat now, do. Row your boat now, do."),
    Pair("The text is about bees. It says they fly far.", "The text has bees as its subject. They fly far, it says."),
    Pair("The facts are the same in each report, he said.", "He said: the facts are the same in every report."),
    Pair("1. Wash it.\n2. Dry it.", "First wash it. Then dry it."),
    Pair("First part.\n\n---\n\nSecond part.", "Part one.\n\n---\n\nPart two."),
    Pair("Q: Why is it cold?\nA: The heating broke.", "Q: Why so cold?\nA: Because the heating broke."),
    Pair("Pros: it is cheap.\nCons: it is slow.", "Pros: little cost.\nCons: little speed."),
    Pair("User: Hi, is it open?\nAssistant: Yes, until 8.", "User: Hello, are you open?\nAssistant: Until 8, yes."),
    Pair("The file is named <name>.txt and lies in /tmp.", "In /tmp lies a file named <name>.txt."),
    Pair("Write \\n for a new line.", "For a new line, write \\n."),
    # Other languages, one word, no full stop
    Pair("北京是中国的首都。它有很长的历史。", "中国的首都是北京，它的历史很长。"),
    Pair("東京は日本の首都です。人口がとても多いです。", "日本の首都は東京で、とても人口が多いです。"),
    Pair("Поезд ушёл в девять. Мы опоздали.", "В девять поезд ушёл, и мы опоздали."),
    Pair("Le chat dort sur la table. Il est vieux.", "Sur la table dort le chat, qui est vieux."),
    Pair("Claro, el museo está en la plaza. Abre a las 9.", "Claro, en la plaza está el museo. A las 9 abre."),
    Pair("we went home and slept", "we went back home and slept"),
    Pair(
        "Let me think about what makes a good friend. A friend listens.",
        "Let me think: what is a good friend? One who listens.",
    ),
    Pair("Think about cars. They make smog.", "Let's think about cars. They produce smog."),
    Pair("Okay. I will go to school and learn.", "Okay, so I will go to school to learn."),
    Pair("To begin, the plan is bad.", "First, I will say that the plan is bad."),
    Pair(
        "I think driverless cars are bad. They could crash. Nobody would drive.",
        "First, I will say that driverless cars are bad. Cars could crash. No one would drive.",
    ),
    Pair(
        "First, I will talk about cost. Then I will talk about noise.",
        "First I will speak of cost, and of noise after that.",
    ),
)
"""Rewrites that are as they should be, however they look: they must pass unchanged."""
