"""What a generation that still runs has made so far, for a review that does not wait for its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jrh_mlflow.schema.items import Item
from jrh_mlflow.stimuli.suite import item_line

PARTIAL_FILE = "items.partial.jsonl"
"""Lines as in `suite.jsonl`: baselines first, then items in the order they are finished."""

OnItems = Callable[[Sequence[Item]], None]


@contextmanager
def partial_file(folder: Path) -> Iterator[OnItems]:
    """Append items to the folder's partial file inside the block; it goes when the block ends well.

    When it fails, the file stays only where a review has begun; the next generation into the folder starts it anew.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / PARTIAL_FILE
    try:
        with file.open("wb") as sink:

            def write(items: Sequence[Item]) -> None:
                sink.write(b"".join(item_line(item) for item in items))
                sink.flush()

            yield write
    except BaseException:
        if set(folder.iterdir()) == {file}:
            file.unlink()
            folder.rmdir()
        raise
    file.unlink()
