"""What is printed when a server starts: where our pages are, and the token that opens the review."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from jrh_mlflow.home import writable_home
from jrh_mlflow.review.guard import new_token
from jrh_mlflow.show.addresses import FOLDER, Addresses

_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - recognised, not listened on
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def page_links(address: str, token: str) -> list[str]:
    """Return a line for the list of judges and one for the review, of a server at an address.

    Example:
        >>> page_links("http://127.0.0.1:5000", "secret")[0]
        'judges     http://127.0.0.1:5000/jrh/'
    """
    to = Addresses(f"{address}/{FOLDER}")
    # The review alone needs the token: it writes decisions, the other pages only read.
    return [f"judges     {to.index()}", f"review     {to.review(token)}"]


def listening_address(arguments: Sequence[str]) -> str | None:
    """Return the address that uvicorn was told to listen on, as a browser on this machine finds it; None if not told.

    Example:
        >>> listening_address(["uvicorn", "--host", "0.0.0.0", "--port", "5000", "--workers", "4"])
        'http://127.0.0.1:5000'
    """
    told = dict(pairwise(arguments))
    host, port = told.get("--host"), told.get("--port")
    if host is None or port is None:
        return None
    name = "127.0.0.1" if host in _EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def host_note(address: str, hosts: Sequence[str]) -> list[str]:
    """Say what opens the pages under a name that a browser on another machine uses, where nobody said it.

    Example:
        >>> host_note("http://10.0.0.5:5000", [])
        ['Our pages answer for 127.0.0.1 and localhost only: set JRH_REVIEW_HOSTS=10.0.0.5:5000 for this address.']
    """
    host = address.removeprefix("http://")
    name = host.rpartition(":")[0].strip("[]")
    if name in _LOOPBACK or host in hosts:
        return []
    return [f"Our pages answer for 127.0.0.1 and localhost only: set JRH_REVIEW_HOSTS={host} for this address."]


def server_token() -> str:
    """Return the token that all processes of this server share."""
    given = os.environ.get("JRH_REVIEW_TOKEN")
    if given:
        return given
    file = writable_home() / "review-token"
    _create_once(file, new_token())
    return file.read_text(encoding="ascii").strip()


def _create_once(file: Path, text: str) -> None:
    """Make a file for this user's eyes, whole, unless it is there; of several processes one succeeds."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as sink:
        sink.write(text)
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
