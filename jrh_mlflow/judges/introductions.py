"""The words around a verdict, in ten languages: those that introduce it, and those that point to an example."""

from __future__ import annotations

import re

# No name of an answer ("a") and nothing that could deny, suppose or quote may stand here.
_WORDS = """
    the my our this here is it s i so therefore thus hence finally then now again and but in
    overall on of above based considering given everything rubric criteria as
    sure certainly ok okay well hm done
    conclude say choose pick select prefer decide judge rate give
    final verdict answer judgement judgment decision conclusion result output evaluation assessment
    analysis comparison score rating grade label mark choice winner response assistant better best
    json object

    mein meine meinen das die der ist lautet hier daher deshalb somit also folglich insgesamt nun
    endgültig endgültige endgültiges endgültiger abschließend abschließende abschließendes und
    urteil antwort bewertung ergebnis entscheidung fazit note ich entscheide wähle sage bessere

    mi el la es así que por tanto lo aquí está en y elijo digo mejor
    veredicto respuesta resultado decisión conclusión evaluación puntuación

    mon ma le est c voici donc ainsi je choisis dis et meilleure
    réponse finale résultat décision évaluation

    il mio mia è ecco quindi dunque pertanto scelgo dico migliore
    verdetto risposta risultato decisione conclusione valutazione punteggio

    o meu minha é eis aqui portanto assim logo escolho digo melhor
    veredito resposta decisão conclusão avaliação pontuação

    мой моя моё мое вот итак поэтому я выбираю окончательный окончательное итоговый
    вердикт ответ решение вывод итог результат оценка

    我的判断 我的判断是 我的裁决 我的裁决是 我的结论 我的结论是 我的答案 我的答案是 我的最终判断是
    判断 裁决 结论 答案 判定 最终判断 最终裁决 最终结论 最终答案 最终判定 结果 因此 所以 综上所述

    私の判定は 私の結論は 私の回答は 判定は 最終判定 結論 結論は 回答 最終回答 答え 結果 評価
    したがって よって

    حكمي الحكم إجابتي الإجابة النتيجة القرار قراري النهائي النهائية لذلك إذن هو هي الخلاصة
"""
INTRODUCTORY_WORDS = frozenset(_WORDS.split())
"""Words of which an introduction such as `So my final verdict is:` may be made."""

POINTERS = re.compile(
    r"""
    \bexamples?\b | \be\.\ ?g\b | \bi\.\ ?e\b | \b(?:for|an?)\ instance
    | \bthe\ (?:following|next)\b | \bfollow(?:s|ing)\W*$ | \bbelow\b | \bhypothe
    | \bquot(?:e|ed|es|ing|ation)\b | \bimagin | \bsuppos | \bhere(?:\ is|\ are|['’]s)\b
    | \b(?:like\ )?this(?:\ one)?\W*$
    # German
    | \bbeispiel | \b(?:bspw|bsp|z\.\ ?B)\b | \bfolgend | \bunten\b | \bzit(?:at|ier)
    | \bangenommen\b
    # Spanish, Portuguese
    | \bejemplo | \bp\.\ ?ej\b | \bexemplo | \b(?:siguiente|seguinte)s?\b | \bcontinuación\b
    | \b(?:abajo|abaixo)\b | \bcita(?:ción|ção)?\b | \bsupon
    # French
    | \bexemple | \bp\.\ ?ex\b | \bsuivant | \bci-dessous\b | \bvoici\b | \bcitation\b
    # Italian
    | \besemp | \b(?:ad|per)\ es\b | \bseguente\b | \bdi\ seguito\b | \bcitazione\b
    # Russian
    | \bпример | \bнапр | \bследующ | \bниже\b | \bцитат
    # Arabic
    | مثال | مثلا | التالي | أدناه | اقتباس
    # Chinese, Japanese
    | 例 | 比如 | 譬如 | 以下 | 下面 | 下記 | 次の | 如下 | 引用 | 假设
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""By what a finished sentence speaks of what stands behind it, as of an example."""
