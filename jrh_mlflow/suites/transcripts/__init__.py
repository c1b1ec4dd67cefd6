"""Transcripts of assistants and agents: read from logs, prepared, made into items, and written back."""

from jrh_mlflow.suites.transcripts.items import read_transcripts, transcript_items
from jrh_mlflow.suites.transcripts.preprocessing import preprocess
from jrh_mlflow.suites.transcripts.transcript import Transcript

__all__ = ["Transcript", "preprocess", "read_transcripts", "transcript_items"]
