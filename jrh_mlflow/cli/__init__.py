"""The command `jrh`: parse, call one function, print. Errors are one line; exit codes are those of `errors`."""

from jrh_mlflow.cli.main import main

__all__ = ["main"]
