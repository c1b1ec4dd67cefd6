"""The address of a PostgreSQL server: how it is read, shown without its password, and connected to."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from jrh_mlflow.errors import JournalError

_DEFAULTS = {
    "connect_timeout": "10",
    "application_name": "jrh_mlflow",
    # A peer that has gone without a word is noticed after a minute, not after hours.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
_SESSION = """SELECT set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),
    set_config('tcp_keepalives_count', '3', false), set_config('idle_in_transaction_session_timeout', '60s', false),
    CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END"""
_open_connections: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """Where a server is. Only `shown` may be printed, logged or stored."""

    shown: str
    options: dict[str, Any] = field(repr=False)

    def explain(self, error: BaseException) -> str:
        """Return the first line of an error, free of the password."""
        text = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        for name in ("password", "sslpassword"):
            if self.options.get(name):
                text = text.replace(str(self.options[name]), "***")
        return text


def read_address(url: str) -> ServerAddress:
    """Read `postgresql://user:password@host:port/database?option=value`, as libpq does.

    Raises:
        JournalError: For an address that cannot be read. It repeats none of it: what libpq takes for a port or a
            host is a part of the password when that holds an unescaped `/` or `@`.
    """
    _, _, rest = url.partition("://")
    try:
        given = {name: value for name, value in conninfo_to_dict(f"postgresql://{rest}").items() if value is not None}
    except psycopg.ProgrammingError:
        given = {"port": "unreadable"}
    host, port, database = str(given.get("host", "")), str(given.get("port", "0")), str(given.get("dbname", ""))
    if not port.replace(",", "0").isdecimal() or "@" in host + database:
        form = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        escapes = "In the password / is written %2F, @ is %40, : is %3A, ? is %3F and % is %25."
        raise JournalError(f"The address of the PostgreSQL server cannot be read. It has the form {form}. {escapes}")
    return ServerAddress(shown=_show(given), options={**_DEFAULTS, **given, "client_encoding": "UTF8"})


def _show(given: dict[str, Any]) -> str:
    user = f"{given['user']}@" if "user" in given else ""
    host, port = str(given.get("host", "")), f":{given['port']}" if "port" in given else ""
    database = given.get("dbname", "")
    if host.startswith("/"):
        return f"postgresql://{user}{port}/{database}?host={host}"
    return f"postgresql://{user}{host}{port}/{database}"


def connect(address: ServerAddress) -> psycopg.Connection[Any]:
    """Open a connection that commits each statement by itself and whose commits are on the server's disk."""
    try:
        connection = psycopg.connect(**address.options, autocommit=True)
    except psycopg.Error as error:
        todo = "Check that the server runs, the address and the password"
        # Not `from error`: nothing that was made of the address may be printed.
        raise JournalError(f"No connection to {address.shown}: {address.explain(error)}. {todo}.") from None
    _open_connections.add(connection)
    try:
        connection.execute(_SESSION)
    except psycopg.Error:
        connection.close()
        raise
    return connection


def _let_go_in_child() -> None:
    """A forked child must not keep its parent's connections open, or the parent would seem to live on."""
    for connection in list(_open_connections):
        if not connection.closed:
            # Not `connection.close()`, which would end the parent's session on the server.
            os.close(connection.fileno())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
