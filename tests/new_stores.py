"""MLflow stores of tests: their tables copied instead of migrated, their writes not waited for."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.once import once

ACTIVE = ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI")
"""Where MLflow looks for the store and the experiment of a process."""


def forget_active() -> None:
    """Let no store and no experiment be MLflow's active one."""
    for name in ACTIVE:
        os.environ.pop(name, None)
    if "mlflow.tracking.fluent" in sys.modules:
        fluent = import_module("mlflow.tracking.fluent")
        fluent._active_experiment_id = None
        import_module("mlflow").set_tracking_uri(None)


def forget_relative() -> None:
    """Let a relative address be that of the folder at hand: MLflow keeps stores and engines by their addresses."""
    store = import_module("mlflow.store.tracking.sqlalchemy_store").SqlAlchemyStore
    engines: dict[str, Any] = getattr(store, "_engine_map", {})
    for uri in [uri for uri in engines if uri.startswith("sqlite:///") and not uri.startswith("sqlite:////")]:
        engines.pop(uri).dispose()
    registry = import_module("mlflow.tracking._tracking_service.registry").TrackingStoreRegistry
    registry._get_store_with_resolved_uri.cache_clear()


def without_fsync() -> None:
    """Let MLflow's stores and Optuna's studies not wait for the disk: no test cuts the power.

    Journals and decisions do not go through SQLAlchemy's engines: they wait for the disk as ever.
    """
    from sqlalchemy import Engine, event

    @event.listens_for(Engine, "connect")
    def connected(connection: Any, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")


def with_shared_statements() -> None:
    """Let SQLite's engines share the statements they have compiled: nearly every test has a store, and so an engine.

    SQLAlchemy keeps them by dialect, of which each engine has an object of its own.
    """
    from sqlalchemy import Engine, util
    from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite as Dialect

    shared, made = util.LRUCache(5000), Engine.__init__

    def make(engine: Any, *args: Any, **options: Any) -> None:
        made(engine, *args, **options)
        if type(engine.dialect) is Dialect:
            engine._compiled_cache = shared

    Engine.__init__ = make
    Dialect.__hash__ = lambda dialect: hash(type(dialect))
    Dialect.__eq__ = lambda dialect, other: type(dialect) is type(other)


def with_copied_tables() -> None:
    """Where MLflow is loaded, let it run its migrations once per test run; every further new SQLite store is a copy."""
    utils = sys.modules.get("mlflow.store.db.utils")
    if utils is not None and not hasattr(utils._initialize_tables, "template"):
        utils._initialize_tables = _copying(utils._initialize_tables)


def make_tables(uri: str) -> None:
    """Make the tables of an SQLite store whose file is new."""
    from sqlalchemy import create_engine

    utils = import_module("mlflow.store.db.utils")
    if not Path(uri.removeprefix("sqlite:///")).stat().st_size:
        engine = create_engine(uri)
        utils._initialize_tables(engine)
        engine.dispose()


def _copying(migrate: Callable[[Any], None]) -> Callable[[Any], None]:
    from sqlalchemy import create_engine, inspect

    def make(file: Path) -> None:
        engine = create_engine(f"sqlite:///{file}")
        migrate(engine)
        engine.dispose()

    @cache
    def template() -> Path:
        return once("tables.db", make)

    def initialize(engine: Any) -> None:
        if engine.url.get_backend_name() != "sqlite" or inspect(engine).get_table_names():
            return migrate(engine)
        with closing(sqlite3.connect(template())) as source, engine.connect() as connection:
            source.backup(connection.connection.dbapi_connection)

    initialize.template = template  # type: ignore[attr-defined]
    return initialize
