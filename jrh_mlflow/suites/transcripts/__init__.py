"""Transcripts of assistants and agents: read from logs, prepared, made into items, and written back."""

from jrh_mlflow.suites.transcripts.items import read_transcripts, transcript_items
from jrh_mlflow.suites.transcripts.preprocessing import preprocess
from jrh_mlflow.suites.transcripts.transcript import Transcript, approximate_tokens

__all__ = ["Transcript", "approximate_tokens", "preprocess", "read_transcripts", "transcript_items"]
