"""Judges: anything that answers a presentation."""

from jrh_mlflow.judges._base import APART as APART
from jrh_mlflow.judges._base import PAIRED as PAIRED
from jrh_mlflow.judges._base import AnsweringJudge as AnsweringJudge
from jrh_mlflow.judges._base import Judge as Judge
from jrh_mlflow.judges._base import ModelJudge as ModelJudge
from jrh_mlflow.judges._base import registration_facts as registration_facts
from jrh_mlflow.judges._base import shown_name as shown_name
