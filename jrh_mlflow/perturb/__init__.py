"""Seeds in, perturbed items out: one file per family of reliability tests, and the registry that lists them."""

from jrh_mlflow.perturb._base import CHANGED as CHANGED
from jrh_mlflow.perturb._base import KEPT as KEPT
from jrh_mlflow.perturb._base import Check as Check
from jrh_mlflow.perturb._base import CheckContext as CheckContext
from jrh_mlflow.perturb._base import CodeTest as CodeTest
from jrh_mlflow.perturb._base import NotApplicable as NotApplicable
from jrh_mlflow.perturb._base import Parameter as Parameter
from jrh_mlflow.perturb._base import ReliabilityTest as ReliabilityTest
from jrh_mlflow.perturb._base import Rewrite as Rewrite
from jrh_mlflow.perturb._base import Similarity as Similarity
from jrh_mlflow.perturb._base import Target as Target
from jrh_mlflow.perturb._base import fill_prompt as fill_prompt
from jrh_mlflow.perturb._base import item_id as item_id
from jrh_mlflow.perturb._base import labels_context as labels_context
from jrh_mlflow.perturb._base import parameter as parameter
from jrh_mlflow.perturb._base import prompt as prompt
from jrh_mlflow.perturb.agents import AGENT_TESTS as AGENT_TESTS
from jrh_mlflow.perturb.agents import AgentTest as AgentTest
