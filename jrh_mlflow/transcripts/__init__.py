"""Transcripts of assistants and agents: read from logs, prepared, made into items, and written back."""

from jrh_mlflow.transcripts.model import Transcript, approximate_tokens
from jrh_mlflow.transcripts.preprocess import preprocess
from jrh_mlflow.transcripts.reading import read_transcripts
from jrh_mlflow.transcripts.seeds import transcript_items

__all__ = ["Transcript", "approximate_tokens", "preprocess", "read_transcripts", "transcript_items"]
