"""Description of a run on MLflow's page: its Markdown, as much as MLflow keeps, with links to our pages of the run."""

from __future__ import annotations

from jrh_mlflow.show.addresses import FOLDER, Addresses
from jrh_mlflow.show.markdown import MAX_DESCRIPTION, shortened

_APART = "\n\n"


def run_description(markdown: str, run_id: str, *, has_calls: bool, artifact: str) -> str:
    """Return a description that begins with the links; what does not fit is in the artifact.

    MLflow folds a description after some lines, and only what stands first can be clicked before it is unfolded. The
    links are relative: MLflow's page is found under whatever prefix, and ours is beside it.

    Example:
        >>> print(run_description("# Jury", "0a1b", has_calls=False, artifact="jury.md"))
        [Page of this run](jrh/run/0a1b), where `jrh ui` serves it.
        <BLANKLINE>
        # Jury
    """
    links = _links(run_id, has_calls=has_calls)
    most = MAX_DESCRIPTION - len(links) - len(_APART)
    return f"{links}{_APART}{shortened(markdown, artifact=artifact, most=most)}"


def own_text(description: str, run_id: str) -> str:
    """Return a description without the links that lead to the page on which it is shown."""
    for has_calls in (True, False):
        description = description.removeprefix(f"{_links(run_id, has_calls=has_calls)}{_APART}")
    return description


def _links(run_id: str, *, has_calls: bool) -> str:
    to = Addresses(FOLDER)
    calls = f" and [its calls]({to.calls(run_id)})" if has_calls else ""
    return f"[Page of this run]({to.run(run_id)}){calls}, where `jrh ui` serves {'them' if has_calls else 'it'}."
