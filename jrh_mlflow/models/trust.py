"""Which addresses may get a key: decided by who named them, not by a list of hosts.

An address of an argument, an option, `--env-file` or the environment is the user's word; where nobody names one, the
provider's own is asked. One that a recipe, a space, `.env`, a run or a registered judge names gets no key before the
user has allowed its host. Whoever reads such a file calls `name_address`; whoever sends a key calls `check_address`.
"""

from __future__ import annotations

import ipaddress
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.home import home, private_file, private_folder, user_data
from jrh_mlflow.models.catalog import KEYS, all_address_variables
from jrh_mlflow.text import SECRET_NAME, blank_secrets

VARIABLE = "JRH_ALLOW_KEY_TO"
"""Hosts that may get keys, for processes without a command line; `.env` cannot set it."""
WRITTEN_DOWN = "A run or registered judge"
"""Who named an address that stands in a store."""
_FILE = "allow_key_to"
"""In the user's own folder: one host per line."""
_ADDRESS_KEYS = ("api_base", "base_url", "url", "extra", "tracking_uri", "journal")
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[\da-fA-F:.]+\](:\d+)?")
_LOGINS = {
    "http": (
        tuple(f"MLFLOW_TRACKING_{name}" for name in ("TOKEN", "USERNAME", "AUTH", "AWS_SIGV4")),
        "~/.mlflow/credentials",
    ),
    "database": (("PGPASSWORD", "MYSQL_PWD"), "~/.pgpass"),
}
"""Variables and the file of the login that a store gets."""

_named: dict[str, str | None] = {}
"""Who named an address first; None is the user."""
_allowed: set[str] = set()
_from_dotenv: set[str] = set()
"""Variables that `.env` set."""


def forget() -> None:
    """Forget who named what, and what was allowed for this process alone."""
    for known in (_named, _allowed, _from_dotenv):
        known.clear()


def name_address(address: str | None, by: str | None) -> None:
    """Keep who named an address, None for the user; the first to name it counts."""
    if address:
        _named.setdefault(_place(address), by)


def name_addresses(written: object, by: str, *, everything: bool = False) -> None:
    """Keep of all addresses in a file, wherever they stand in it, that it named them.

    Args:
        written: What the file holds.
        by: The file.
        everything: Of `extra`, where any text may be an address.
    """
    if isinstance(written, Mapping):
        for key, value in written.items():
            name_addresses(value, by, everything=everything or key in _ADDRESS_KEYS)
    elif isinstance(written, list):
        for value in written:
            name_addresses(value, by, everything=everything)
    elif everything and isinstance(written, str) and ("/" in written or "." in written):
        name_address(written, by)


def allow_key_to(hosts: str | Iterable[str] | None) -> None:
    """Let keys go to hosts, now and in later runs of this user.

    Args:
        hosts: `HOST` or `HOST:PORT`; `http://HOST` where keys may go there without encryption.

    Raises:
        RecipeError: for what is no host.
    """
    given = (hosts,) if isinstance(hosts, str) else hosts or ()
    for host in (one.strip().rstrip("/") for one in given):
        scheme, _, name = host.rpartition("://")
        if not _HOST.fullmatch(name) or scheme not in ("", "http", "https"):
            raise RecipeError(f"`allow_key_to` takes HOST, HOST:PORT or http://HOST, but got {host!r}.")
        if host not in {*_allowed, *_remembered()}:
            _allowed.add(host)
            try:
                _remember(host)
            except OSError as error:
                warnings.warn(f"{host} is allowed for this run only ({error.strerror}).", JrhWarning, stacklevel=2)


def check_address(address: str, *, gets: str = "a key", own: Iterable[str] = ()) -> None:
    """Refuse to send a key to an address that somebody else than the user named, unless its host is allowed.

    Args:
        address: Where it would go.
        gets: What would go there, for the error.
        own: Variables of the environment that may name the same address: then it is the user's word.

    Raises:
        RecipeError: saying who named it, and how to allow it.
    """
    place = _place(address)
    if (by := _named.get(place)) is None:
        return
    words = {_place(os.environ[name]) for name in own if os.environ.get(name) and name not in _from_dotenv}
    hosts = {*_allowed, *_remembered(), *re.split(r"[\s,]+", os.environ.get(VARIABLE, ""))}
    if place in words or any(_allows(host, place) for host in hosts if host):
        return
    parts = urlsplit(place)
    host = place if parts.scheme == "http" and not is_loopback(parts.hostname) else parts.netloc
    raise RecipeError(
        f"{by} names {blank_secrets(place)}, which would get {gets}: add --allow-key-to {host} (in Python "
        "allow_key_to=) if you trust it with that."
    )


def check_stores(options: Mapping[str, Any]) -> None:
    """Refuse a store or journal that somebody else than the user named, where it would get a login or all prompts.

    Raises:
        RecipeError: as `check_address` does.
    """
    check_store(options.get("tracking_uri"))
    journal = options.get("journal")
    if isinstance(journal, str) and "://" in journal and not is_loopback(urlsplit(_place(journal)).hostname):
        check_address(journal, gets="all prompts and answers")


def check_store(uri: str | None) -> None:
    """Refuse an MLflow store that somebody else than the user named, where a login of the user's would go there.

    Raises:
        RecipeError: as `check_address` does.
    """
    variables, file = _LOGINS["http" if (uri or "").startswith("http") else "database"]
    if uri and "://" in uri and (any(map(os.environ.get, variables)) or Path(file).expanduser().exists()):
        check_address(uri, gets="your login")


def check_artifacts(address: str | None, store: str) -> None:
    """Refuse artifacts on another server than their store's, as `check_store` does: MLflow sends the login there too.

    Raises:
        RecipeError: as `check_address` does.
    """
    parts, own = urlsplit(address or ""), urlsplit(store)
    if parts.scheme in ("http", "https", "mlflow-artifacts") and parts.hostname not in (None, own.hostname):
        scheme = own.scheme if parts.scheme == "mlflow-artifacts" else parts.scheme
        place = f"{scheme if scheme in _PORTS else 'https'}://{parts.netloc}"
        name_address(place, WRITTEN_DOWN)
        check_store(place)


def check_kept_store(uri: str | None) -> None:
    """Refuse a store that an evaluation kept in a folder of the project names, as `check_store` does: it may be cloned.

    Raises:
        RecipeError: as `check_address` does.
    """
    if home() != _own_folder().absolute() and uri != os.environ.get(_STORE):
        name_address(uri, str(home()))
        check_store(uri)


def is_from_dotenv(name: str) -> bool:
    """Whether `.env` set a variable, and not the user."""
    return name in _from_dotenv


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine.

    Example:
        >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("localhost.example.com")
        (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _place(address: str) -> str:
    """Return scheme, host and port of an address in one form; what has no plain host stays as it is."""
    scheme, mark, rest = address.strip().partition("://")
    scheme, rest = (scheme.lower(), rest) if mark else ("https", address.strip())
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2].lower()
    if not _HOST.fullmatch(host):
        return f"{scheme}://{rest}"
    default = f":{_PORTS.get(scheme, '')}"
    return f"{scheme}://{host.removesuffix(default)}"


def _allows(host: str, place: str) -> bool:
    scheme, _, name = host.strip().rstrip("/").lower().rpartition("://")
    given, there = urlsplit(f"//{name}"), urlsplit(place)
    if not _HOST.fullmatch(there.netloc) or given.hostname != there.hostname:
        return False
    if given.port not in (None, there.port or _PORTS.get(there.scheme)):
        return False
    return scheme == there.scheme if scheme else there.scheme != "http" or is_loopback(there.hostname)


def _own_folder() -> Path:
    """Return the user's own folder: no `.env` can say what is allowed."""
    given = os.environ.get("JRH_HOME")
    return Path(given).expanduser() if given and "JRH_HOME" not in _from_dotenv else user_data() / "jrh"


def _remember(host: str) -> None:
    file = _own_folder() / _FILE
    private_folder(file.parent)
    private_file(file)
    with file.open("a", encoding="utf-8") as hosts:
        hosts.write(f"{host}\n")


def _remembered() -> list[str]:
    try:
        return (_own_folder() / _FILE).read_text(encoding="utf-8").split()
    except (OSError, RuntimeError):
        return []


_SETTING = re.compile(
    r"\w+_(REGION|REGION_NAME|DEFAULT_REGION|PROJECT|PROJECT_ID|LOCATION|API_VERSION|ORGANIZATION|ACCESS_KEY_ID)"
    r"|AZURE_(CLIENT|TENANT)_ID|AWS_BEARER_TOKEN_BEDROCK|MLFLOW_TRACKING_USERNAME|MLFLOW_EXPERIMENT_(NAME|ID)|JRH_\w+"
)
"""What `.env` may set besides keys and addresses."""
_NEVER = re.compile(r"JRH_ALLOW_\w+|JRH_REVIEW_\w+|\w*CREDENTIALS?", re.IGNORECASE)
"""What a cloned folder may not decide. A file of credentials can name any other file, and an address to send it to."""
_STORE = "MLFLOW_TRACKING_URI"


def take_dotenv(values: Mapping[str, str], file: str) -> None:
    """Set what a folder's `.env` may set: keys, settings, and addresses, which it is known to have named.

    A cloned folder brings its own: proxies, switches of TLS and everything else are left out, and that is said.
    """
    addresses = {*all_address_variables(), _STORE}
    left = []
    for name, value in values.items():
        if name in os.environ:
            continue
        is_setting = bool(_SETTING.fullmatch(name))
        is_address = not is_setting and (name in addresses or name.endswith("_API_BASE"))
        is_key = SECRET_NAME.search(name) or any(name in names for names in KEYS.values())
        # A region with a slash in it would be another host.
        is_plain = name.startswith(("JRH_", "MLFLOW_")) or re.fullmatch(r"[\w.-]*", value)
        if _NEVER.fullmatch(name) or not (is_address or is_key or (is_setting and is_plain)):
            left.append(name)
            continue
        os.environ[name] = value
        _from_dotenv.add(name)
        if is_address:
            name_address(value, file)
    if left:
        warnings.warn(
            f"{file} sets {', '.join(left)}, which is not read from there: name the file (--env-file {file}) to have "
            "all of it.",
            JrhWarning,
            stacklevel=2,
        )
