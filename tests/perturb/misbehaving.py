"""How writers misbehave: 200 ways to return a text that is more, less or other than the text.

A way is a template. What stands for the honest rewrite in it: `§T` as it is, `§J` escaped for JSON, `§P` as a literal
of Python, `§2` and `§4` indented, `§Q` quoted line by line, `§H` its first part cut within a word, `§A` and `§B` its
halves; `§O` and `§K` are the original, plain and escaped, `§I` is a line of the brief.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from jrh_mlflow.perturb._base import prompt

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


_FIRST: tuple[Way, ...] = (
    # Prefaces
    Way("preface", "Sure! Here is the rewritten text:\n\n§T"),
    Way("preface", "Sure! Here is the rewritten text:\n\n§T", "sure"),
    Way("preface", "Sure! Here is the rewritten text: §T", "sure"),
    Way("preface", "Certainly! Below is a paraphrased version that keeps every fact:\n\n§T", "list"),
    Way("preface", "Here's the reworded passage:\n§T", "dialogue"),
    Way("preface", "Of course. Here's the text, rewritten as you asked:\n\n§T", "quoted"),
    Way("preface", "Okay, here's a rephrased version of your text: §T", "sentence"),
    Way("preface", "Rewritten: §T", "refusal"),
    Way("preface", "Rewritten version — §T"),
    Way("preface", "Response: §T"),
    Way("preface", "Assistant: §T", "paragraphs"),
    Way("preface", "Final answer:\n\n§T", "unfinished"),
    Way("preface", "Here you go:\n\n§T", "letter"),
    Way("preface", "As requested, a version in other words:\n\n§T", "code"),
    Way("preface", "I've rewritten the text below while keeping all the numbers.\n\n§T", "paragraphs"),
    Way("preface", "Absolutely! I'd be happy to help with that. Here is the condensed version:\n\n§T"),
    Way("preface", "Great! Here is the longer version of the response:\n\n§T", "recipe"),
    Way("preface", "Thank you for sharing your text! Here's a paraphrase:\n\n§T", "sure"),
    Way("preface", "Hier ist der umformulierte Text:\n\n§T"),
    Way("preface", "Natürlich! Hier ist die überarbeitete Fassung:\n\n§T", "german"),
    Way("preface", "Gerne. Umgeschriebener Text: §T", "german"),
    Way("preface", "Bien sûr ! Voici le texte réécrit :\n\n§T", "list"),
    Way("preface", "Voici une version reformulée :\n§T"),
    Way("preface", "¡Claro! Aquí tienes el texto reescrito:\n\n§T"),
    Way("preface", "Por supuesto, a continuación la versión parafraseada:\n\n§T", "sentence"),
    Way("preface", "Ecco il testo riscritto:\n\n§T", "paragraphs"),
    Way("preface", "Certo! Di seguito la versione riformulata:\n§T"),
    Way("preface", "Claro! Aqui está o texto reescrito:\n\n§T", "dialogue"),
    Way("preface", "Hier is de herschreven tekst:\n\n§T"),
    Way("preface", "好的，以下是改写后的文本：\n\n§T"),
    Way("preface", "以下是改写版本：§T", "sentence"),
    Way("preface", "もちろんです。以下が書き換えた文章です：\n\n§T"),
    Way("preface", "Конечно! Вот переписанный текст:\n\n§T"),
    Way("preface", "Вот перефразированная версия: §T", "sentence"),
    Way("preface", "물론입니다! 다음은 다시 작성한 텍스트입니다:\n\n§T"),
    Way("preface", "Oto przeredagowany tekst:\n\n§T"),
    Way("preface", "Sure!\n\n§T", "prose"),
    Way("preface", "Understood.\n\n§T", "list"),
    Way("preface", "Certainly, §T"),
    Way("preface", "I have rewritten it as follows. §T"),
    Way("preface", "Sure, no problem, so here goes with a rewritten text for you. §T", "paragraphs"),
    Way("preface", "Sure, here you go.\n§T", "sure"),
    Way("preface", "You could say: §T"),
    Way("preface", "How about this: §T", "sure"),
    Way("preface", "Aquí tienes: §T"),
    Way("preface", "(Rewritten) §T"),
    # Headings and labels
    Way("heading", "**Rewritten text:**\n\n§T"),
    Way("heading", "**Rewritten text:** §T", "german"),
    Way("heading", "### Response\n§T"),
    Way("heading", "# Paraphrase\n\n§T", "list"),
    Way("heading", "## ✨ Rewritten Version ✨\n\n§T", "paragraphs"),
    Way("heading", "__Final version__\n\n§T"),
    Way("heading", "[Rewritten response]\n§T"),
    Way("heading", "TEXT:\n§T", "dialogue"),
    Way("heading", "*Output*\n\n§T", "sentence"),
    Way("heading", "---\n**Paraphrased version**\n---\n§T", "letter"),
    Way("heading", "Umformulierte Fassung:\n\n§T", "german"),
    Way("heading", "【改写】\n§T"),
    Way("heading", "# Safer streets in Leeds\n\n§T"),
    # Closing remarks
    Way("remark", "§T\n\nLet me know if you'd like another version!"),
    Way("remark", "§T\n\nLet me know if you'd like another version!", "letter"),
    Way("remark", "§T\n\nI hope this helps!", "sure"),
    Way("remark", "§T\n\n(Word count: 42)"),
    Way("remark", "§T\n\n[Word count: 42]", "list"),
    Way("remark", "§T (42 words)"),
    Way("remark", "§T\n\nNote: I kept the numbers and names of the original."),
    Way("remark", "§T\n\n---\n\n**Changes made:**\n- replaced some verbs\n- joined two sentences", "paragraphs"),
    Way("remark", "§T\n\nFeel free to ask for further adjustments.", "code"),
    Way("remark", "§T\n\nWould you like me to make it shorter?", "dialogue"),
    Way("remark", "§T\n\n*This version keeps the meaning of the original text.*"),
    Way("remark", "§T\n\nExplanation: synonyms were used and clauses reordered.", "refusal"),
    Way("remark", "§T\n\nIch hoffe, das hilft! Lassen Sie mich wissen, ob etwas fehlt.", "german"),
    Way("remark", "§T\n\nN'hésitez pas à me dire si vous souhaitez une autre version."),
    Way("remark", "§T\n\nEspero que esto te ayude."),
    Way("remark", "§T\n\nFammi sapere se vuoi altre modifiche."),
    Way("remark", "§T\n\nEspero que isso ajude! Me avise se quiser mudanças."),
    Way("remark", "§T\n\nLaat het me weten als je iets anders wilt."),
    Way("remark", "§T\n\n希望这对您有帮助！"),
    Way("remark", "§T\n\n（如需修改，请告诉我。）"),
    Way("remark", "§T\n\nご不明な点があればお知らせください。"),
    Way("remark", "§T\n\nНадеюсь, это поможет! Дайте знать, если нужны правки."),
    Way("remark", "§T I hope this helps!"),
    Way("remark", "§T Let me know if you need anything else changed.", "paragraphs"),
    Way("remark", "Here is the text:\n\n§T\n\nLet me know if this works for you.", "sure"),
    Way("remark", "§A [Note: I changed the wording of the next part] §B"),
    Way("remark", "§A (the rest of the text remains the same)."),
    Way("remark", "§A As requested, the rewritten part follows. §B", "paragraphs"),
    Way("remark", "§T\n\nLet me know if you need more help!", "offer"),
    Way("remark", "§T Let me know if you need more help!", "offer"),
    Way("remark", "§T I hope this helps!", "offer"),
    Way("remark", "§T Is this what you wanted?"),
    Way("remark", "§T The meaning of the original was kept."),
    Way("remark", "§T\n\nCheers!"),
    # JSON
    Way("json", '{"text": "§J", "ok": true}'),
    Way("json", '{"text": "§J", "ok": true}', "quoted"),
    Way("json", '{"text": "§J", "ok": true}', "json"),
    Way("json", '{\n  "rewritten_text": "§J"\n}', "paragraphs"),
    Way("json", '{"rewrittenText":"§J","wordCount":40,"language":"en"}', "list"),
    Way("json", '[{"text": "§J"}]'),
    Way("json", '["§J"]', "sentence"),
    Way("json", '"§J"'),
    Way("json", '"§J"', "code"),
    Way("json", '{"result": {"output": {"text": "§J"}}, "status": "success"}', "dialogue"),
    Way("json", '{"choices": [{"message": {"role": "assistant", "content": "§J"}, "finish_reason": "stop"}]}'),
    Way("json", '{"reasoning": "The text is about lanes, so I keep the year.", "answer": "§J"}'),
    Way("json", '{"original": "§K", "rewritten": "§J"}', "paragraphs"),
    Way("json", '```json\n{"response": "§J"}\n```', "sure"),
    Way("json", 'Here is the JSON:\n{"paraphrase": "§J", "notes": "kept all facts"}'),
    Way("json", '{"text": "§J", "ok": true}\n\nI hope this is what you need!'),
    Way("json", "{'text': §P, 'ok': True}", "refusal"),
    Way("json", "text = §P"),
    Way("json", "print(§P)", "german"),
    Way("json", 'data: {"delta": {"content": "§J"}}'),
    Way("json", '{"version": 1, "text": "§J", "tone": "neutral", "changes": ["verbs", "order"]}'),
    Way("json", '{"part1": "§A", "part2": "§B"}'),
    Way("json", '["§A", "§B"]'),
    Way("json", '{"error": "content policy", "text": null}'),
    Way("json", '{"text_a": "§J", "text_b": "§K"}'),
    Way("json", '{"text": "§J"'),
    Way("json", '{"text": "§J", "ok": tr'),
    Way("json", '§T", "ok": true}'),
    Way("json", '"text": "§J", "ok": true'),
    Way("json", "§A\\n\\n§B"),
    Way("json", '{"summary": "uniforms are good for everyone"}', "json"),
    # YAML
    Way("yaml", "text: |\n  §2\nok: true"),
    Way("yaml", "rewritten: >-\n  §2", "sentence"),
    Way("yaml", '---\nresponse: "§J"\nstatus: done\n---', "german"),
    Way("yaml", "text: '§T'", "prose"),
    Way("yaml", "```yaml\nrewritten_text: |-\n  §2\nnotes: kept all numbers\n```", "paragraphs"),
    Way("yaml", "output:\n  text: |\n    §4\n  ok: true", "list"),
    Way("json", "const text = `§T`;"),
    Way("quotes", "| Text |\n|---|\n| §T |"),
    # Code fences
    Way("fence", "```\n§T\n```"),
    Way("fence", "```text\n§T\n```", "list"),
    Way("fence", "```markdown\n§T\n```", "code"),
    Way("fence", "~~~\n§T\n~~~", "german"),
    Way("fence", "Here is the rewritten text:\n\n```\n§T\n```\n\nLet me know if you need changes.", "dialogue"),
    Way("fence", "````\n```\n§T\n```\n````"),
    Way("fence", "`§T`", "sentence"),
    Way("fence", "```§T```", "sentence"),
    Way("fence", "```\n§T"),
    Way("fence", "§T\n```", "paragraphs"),
    # Quotation marks and other marks around everything
    Way("quotes", '"§T"'),
    Way("quotes", "“§T”", "list"),
    Way("quotes", "'§T'", "sentence"),
    Way("quotes", "„§T“", "german"),
    Way("quotes", "« §T »"),
    Way("quotes", "「§T」"),
    Way("quotes", '"""\n§T\n"""', "paragraphs"),
    Way("quotes", "**§T**"),
    Way("quotes", "> §Q", "paragraphs"),
    Way("quotes", "(§T)", "sentence"),
    Way("quotes", "$§T$"),
    Way("quotes", "1. §T"),
    Way("quotes", 'Rewritten text: "§T"'),
    Way("quotes", '"§T'),
    Way("quotes", "§T”", "paragraphs"),
    # Tags and markers
    Way("tags", "<rewritten>§T</rewritten>"),
    Way("tags", "<text>\n§T\n</text>", "dialogue"),
    Way("tags", "<response>\n<text>§T</text>\n</response>", "german"),
    Way("tags", "<original>§O</original>\n<rewritten>§T</rewritten>"),
    Way("tags", "My answer is below.\n<rewritten_text>§T</rewritten_text>\nThat's it.", "list"),
    Way("tags", "=====BEGIN REWRITTEN=====\n§T\n=====END REWRITTEN=====", "letter"),
    Way("tags", "[START]\n§T\n[END]"),
    Way("tags", "<|im_start|>assistant\n§T<|im_end|>", "paragraphs"),
    Way("tags", "§T</s>"),
    Way("tags", "[INST] §T [/INST]", "sentence"),
    Way("tags", '<?xml version="1.0"?>\n<output><![CDATA[§T]]></output>'),
    Way("tags", "\\boxed{§T}", "sentence"),
    Way("tags", "=====BEGIN ORIGINAL=====\n§T"),
    Way("tags", "<p>§A</p>\n<p>§B</p>"),
    # Reasoning
    Way("reasoning", "<think>Shorter? No, same length.</think>\n\n§T"),
    Way("reasoning", "<thinking>\nKeep 2021.\n</thinking>\n§T", "list"),
    Way("reasoning", "I should keep the year.\n</think>\n\n§T", "german"),
    Way("reasoning", '{"text": "<think>hm</think>§J"}'),
    Way("reasoning", "<think>I wonder how to begin. §T"),
    Way("reasoning", "Let me think about this. The text has three sentences. §T"),
    Way("reasoning", "The user wants me to rewrite the text. I should keep 2021. §T"),
    Way("reasoning", "Okay, so the council and the lanes have to stay. I could begin with why. §T"),
    Way("reasoning", "Reasoning: the facts must stay, so only the order changes.\n\n§T", "sentence"),
    Way("reasoning", "Step 1: Identify the claims.\nStep 2: Reorder them.\n\n§T", "paragraphs"),
    Way("reasoning", "Zuerst muss ich den Satzbau ändern. §T", "german"),
    Way("reasoning", "Key facts: Leeds, 2021, 14 percent. Final: §T"),
    Way("reasoning", "Hmm. Maybe start with residents.\n\n§T"),
    Way("reasoning", "The text has two sentences about Leeds. Keep both.\n\n§T"),
    # Refusals
    Way("refusal", "I'm sorry, but I can't help with that."),
    Way("refusal", "I cannot assist with rewriting this content, because it may be harmful."),
    Way("refusal", "As an AI language model, I'm not able to paraphrase this text.", "list"),
    Way("refusal", "I can't assist with rewriting that text.", "refusal"),
    Way("refusal", "Es tut mir leid, aber dabei kann ich Ihnen nicht helfen.", "german"),
    Way("refusal", "Je suis désolé, mais je ne peux pas vous aider avec cette demande."),
    Way("refusal", "Lo siento, pero no puedo ayudar con esa solicitud."),
    Way("refusal", "Mi dispiace, ma non posso aiutarti con questa richiesta."),
    Way("refusal", "Desculpe, mas não posso ajudar com esse pedido."),
    Way("refusal", "Het spijt me, maar daar kan ik je niet bij helpen."),
    Way("refusal", "抱歉，我无法协助完成这个请求。"),
    Way("refusal", "申し訳ありませんが、そのご依頼にはお応えできません。"),
    Way("refusal", "Извините, но я не могу помочь с этим запросом."),
    Way("refusal", "Je suis désolé, mais je ne peux pas vous aider.", "refusal"),
    Way("refusal", "I'm sorry, but I cannot tell you how bees find their way home by the sun.", "sentence"),
    Way("refusal", "Ich kann Ihnen bei den Radwegen von Lübeck nicht helfen.", "german"),
    Way("refusal", "Questa richiesta non è per me, ma si può fare. §A. §B"),
    # Echo
    Way("echo", "§O\n\n§T"),
    Way("echo", "§T\n\n§O", "german"),
    Way("echo", "§O -> §T"),
    Way("echo", "Original text:\n§O\n\nRewritten text:\n§T"),
    Way("echo", "**Original:** §O\n\n**Rewritten:** §T", "sentence"),
    Way("echo", "Answer with the rewritten text and nothing else.\n§T"),
    Way("echo", "§I\n\n§T"),
    Way("echo", "=====BEGIN ORIGINAL=====\n§O\n=====END ORIGINAL=====\n\n§T"),
    # Several texts
    Way("several", "Option 1: §T\n\nOption 2: §A, in short."),
    Way("several", "**Version A**\n§T\n\n**Version B**\n§A"),
    Way("several", "§T\n\nOR\n\n§A", "paragraphs"),
    Way("several", "§T\n\n---\n\n§A"),
    Way("several", "Variante 1: §T\n\nVariante 2: §A", "german"),
    Way("several", "§T\n\n§T"),
    Way("several", "§T\n§T", "sentence"),
    Way("several", "Draft:\n\n§T\n\nRevised:\n\n§T"),
    # Truncation
    Way("truncation", "§H..."),
    Way("truncation", "§H…", "german"),
    Way("truncation", "§H"),
    Way("truncation", "§H", "german"),
    Way("truncation", "§H", "unfinished"),
    Way("truncation", "§A,", "paragraphs"),
    Way("truncation", "Here is the rewritten text:\n\n§H"),
    Way("truncation", '{"text": "§H'),
    Way("truncation", "§A [continued below]", "refusal"),
)
_LATER: tuple[Way, ...] = (
    # In the manner of chat assistants
    Way("preface", "Absolutely — here's a reworked version that says the same thing in different words:\n\n§T"),
    Way("preface", "Here's your paraphrased text! 😊\n\n§T", "letter"),
    Way("preface", "Sure thing! Here's a more concise take on it:\n\n§T", "paragraphs"),
    Way("preface", "Got it. Rephrased below:\n\n§T", "dialogue"),
    Way("preface", "No problem! The revised passage reads:\n\n§T", "german"),
    Way("preface", "✅ **Rewritten Response:**\n\n§T", "refusal"),
    Way("preface", "**Paraphrase (same meaning, new wording):**\n\n§T", "sure"),
    Way("preface", "A rewritten version of the text is provided below.\n\n§T", "recipe"),
    Way("preface", "REWRITTEN TEXT\n==============\n\n§T", "sentence"),
    Way("preface", "Output: §T", "unfinished"),
    Way("preface", "Below you will find the expanded text.\n\n---\n\n§T"),
    Way("preface", "The following is a semantically equivalent paraphrase of the input:\n§T", "list"),
    Way("preface", "Selbstverständlich, hier kommt der neu formulierte Text:\n\n§T", "german"),
    Way("preface", "D'accord, voici la version remaniée :\n\n§T", "letter"),
    Way("preface", "Con gusto. Esta es la versión reescrita:\n\n§T", "quoted"),
    Way("preface", "Va bene, ecco la parafrasi richiesta:\n\n§T", "code"),
    Way("preface", "Com certeza! Segue o texto reformulado:\n\n§T", "recipe"),
    Way("preface", "Natuurlijk, hieronder de herschreven versie:\n\n§T", "dialogue"),
    Way("preface", "当然可以！改写如下：\n\n§T", "list"),
    Way("preface", "承知しました。言い換えた文章は次のとおりです：\n\n§T", "letter"),
    Way("preface", "Хорошо, ниже приведён переработанный вариант:\n\n§T", "paragraphs"),
    Way("preface", "İşte yeniden yazılmış metin:\n\n§T"),
    Way("preface", "Här är den omskrivna texten:\n\n§T", "sentence"),
    Way("preface", "Okay! §T Hope you like it."),
    # Closing remarks
    Way("remark", "§T\n\nPlease let me know if you would like any adjustments to tone or length.", "unfinished"),
    Way("remark", "§T\n\n---\n*Word count: 58 (original: 52)*"),
    Way("remark", "§T\n\n**Note:** All numbers and names were preserved.", "german"),
    Way("remark", "§T\n\nKey changes:\n1. Active voice became passive.\n2. Two clauses were merged.", "dialogue"),
    Way("remark", "§T\n\nThis paraphrase retains the original's claims, numbers and tone.", "refusal"),
    Way("remark", "§T\n\nIs there anything else you'd like me to rephrase?", "sure"),
    Way("remark", "§T\n\nHinweis: Die Zahlen wurden nicht verändert.", "german"),
    Way("remark", "§T\n\nRemarque : j'ai conservé tous les chiffres.", "list"),
    Way("remark", "§T\n\nSi necesitas más cambios, dímelo. ¡Espero que te sirva!", "paragraphs"),
    Way("remark", "§T\n\nSe vuoi, posso accorciarlo ancora.", "sentence"),
    Way("remark", "§T\n\nSe precisar de ajustes, é só avisar.", "dialogue"),
    Way("remark", "§T\n\nOpmerking: de cijfers zijn ongewijzigd.", "code"),
    Way("remark", "§T\n\n注：保留了所有数字。", "sure"),
    Way("remark", "§T\n\n必要であれば、さらに調整いたします。"),
    Way("remark", "§T\n\nПримечание: числа сохранены.", "refusal"),
    Way("remark", "§T\n\n— Rewritten by your AI assistant", "letter"),
    # Data
    Way("json", '{"rewrite":"§J","preserved":["numbers","names"],"confidence":0.93}', "dialogue"),
    Way("json", '{\n  "task": "paraphrase",\n  "output": "§J",\n  "done": true\n}', "letter"),
    Way("json", '{"role": "assistant", "content": [{"type": "text", "text": "§J"}]}', "recipe"),
    Way("json", 'Sure! ```json\n{"text": "§J"}\n``` Let me know!', "sentence"),
    Way("json", '{"thoughts": "I keep the facts.", "final_text": "§J"}', "unfinished"),
    Way("json", '{"data": {"attributes": {"paraphrased_text": "§J"}, "id": "17"}}', "german"),
    Way("json", "{'rewritten_text': §P}", "list"),
    Way("json", 'return "§J";', "sure"),
    Way("json", '{"answer": "```\\n§J\\n```"}'),
    Way("json", '{"sentences": ["§A", "§B"], "n": 2}', "paragraphs"),
    Way("json", '{"title": "Bicycle lanes", "text": "§J"}'),
    Way("json", '{"text": "§T", "ok": true', "dialogue"),
    Way("json", '§T"}', "german"),
    Way("yaml", "rewritten_text: |\n  §2\nword_count: 41\nlanguage: en", "letter"),
    Way("yaml", "---\ntext: |-\n  §2\n...", "dialogue"),
    Way("yaml", 'status: ok\ntext: "§J"', "recipe"),
    # Fences, marks, tags
    Way("fence", "```plaintext\n§T\n```\n", "dialogue"),
    Way("fence", "~~~text\n§T\n~~~", "list"),
    Way("fence", "Certainly!\n\n```md\n§T\n```\n\nThis keeps the meaning of the original text.", "paragraphs"),
    Way("fence", "```markdown\n§T", "list"),
    Way("quotes", "‘§T’", "german"),
    Way("quotes", "《§T》", "sentence"),
    Way("quotes", "*§T*", "sentence"),
    Way("quotes", "The rewritten text: “§T”", "refusal"),
    Way("quotes", "<<§T>>"),
    Way("tags", "<answer>\n§T\n</answer>", "code"),
    Way("tags", "<paraphrase>§T</paraphrase> <!-- same meaning -->", "list"),
    Way("tags", "<html><body><p>§T</p></body></html>", "sentence"),
    Way("tags", "*** BEGIN TEXT ***\n§T\n*** END TEXT ***", "paragraphs"),
    Way("tags", "§T<|eot_id|>", "german"),
    Way("tags", "<start_of_turn>model\n§T<end_of_turn>", "dialogue"),
    Way("tags", "<final_answer>§T</final_answer>", "refusal"),
    Way("tags", "§A<br/>§B"),
    # Reasoning, refusals, echo, several, cut
    Way("reasoning", "<reasoning>Three claims. Keep 14.</reasoning>\n<answer>§T</answer>", "prose"),
    Way("reasoning", "<|channel|>analysis<|message|>Keep it.<|end|><|channel|>final<|message|>§T", "list"),
    Way("reasoning", "We need to rewrite the text with the same meaning. Keep the year 2021. §T"),
    Way("reasoning", "Hmm, the tone is informal.\n\nWait, I should keep the names.\n\n§T", "letter"),
    Way("reasoning", "Analysis: three claims, one number.\n\nFinal: §T", "paragraphs"),
    Way("reasoning", "首先，我需要理解原文。§T", "list"),
    Way("refusal", "I won't be able to help with rewriting this one, since it could cause harm.", "dialogue"),
    Way("refusal", "Sorry, I can't comply with this request.", "code"),
    Way("refusal", "I must decline to paraphrase this material.", "paragraphs"),
    Way("refusal", "Leider kann ich diese Anfrage nicht bearbeiten.", "german"),
    Way("refusal", "Je regrette, mais il m'est impossible de traiter cette demande.", "list"),
    Way("refusal", "Como modelo de lenguaje, no puedo realizar esta tarea.", "sure"),
    Way("refusal", "对不起，我不能帮助处理这个内容。", "letter"),
    Way("refusal", "К сожалению, я не могу выполнить эту просьбу.", "sentence"),
    Way("refusal", "죄송하지만 도와드릴 수 없습니다.", "german"),
    Way("echo", "Original: §O\nParaphrase: §T", "sentence"),
    Way("echo", "§O\n\n→\n\n§T", "paragraphs"),
    Way("several", "1. Version one: §T\n2. Version two: §A", "sentence"),
    Way("several", "### Option A\n§T\n\n### Option B\n§A.", "german"),
    Way("several", "§T\n\nAlternatively:\n\n§A.", "refusal"),
    Way("truncation", "§H", "refusal"),
    Way("truncation", "**Rewritten text:**\n\n§A and", "german"),
    Way("truncation", "§A —"),
)


WAYS = (*_FIRST, *_LATER)
"""The later ones were written when the first were all in order, and in the manner of other writers."""
HONEST: tuple[Pair, ...] = (
    *PAIRS.values(),
    Pair("```\nx = 1\n```", "```\nx = 1  # one\n```"),
    Pair("Use `x` or ```y``` in the middle of it.", "In the middle of it, `x` or ```y``` can be used."),
    Pair("```python\nprint(1)\n```\nThis prints 1.", "```python\nprint(1)\n```\n1 is what this prints."),
    Pair('["red", "green"]', '["green", "red"]'),
    Pair('{"text": "Paris is in France.", "ok": true}', '{\n  "text": "In France is Paris.",\n  "ok": true\n}'),
    Pair('{"answer": "Paris is the capital."}', '{"answer": "The capital is Paris."}'),
    Pair("{ x: 1 }", "{\n  x: 1\n}"),
    Pair("function f(){ return 1 }", "function f() {\n  return 1;\n}"),
    Pair("text: |\n  It rained in May.\nok: true", "text: |\n  In May it rained.\nok: true"),
    Pair(
        "Here are some tips:\n\n1. Be early.\n2. Be honest.", "Here are a few tips:\n\n1. Come early.\n2. Stay honest."
    ),
    Pair("Note: the museum is closed on Monday.", "Note: on Monday the museum stays closed."),
    Pair("I cannot help with that request.", "That request is something I cannot help with."),
)
"""Rewrites that are as they should be, however they look: they must pass unchanged."""
