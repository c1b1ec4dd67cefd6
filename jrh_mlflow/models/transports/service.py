"""A judge that is a service of its own: JSON is posted to its address, and what it sends back is the answer.

The request's `extra` holds all of it: the `body`, the `headers`, and `usage`, which says where in the answer tokens and
cost stand. A header may name environment variables, as in `Bearer ${JUDGE_TOKEN}`: their values are put in here and
nowhere else, and only for addresses that may have keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from jrh_mlflow.models.transports._base import TransportError
from jrh_mlflow.models.transports.dialect import decode, encode, preview, read_error
from jrh_mlflow.models.transports.direct import DirectTransport, Endpoint, proxy_for
from jrh_mlflow.models.trust import check_address
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import clean_text

PREFIX = "service/"
"""Of the model name of such a judge: the rest is its address without the scheme."""
VARIABLE = re.compile(r"\$\{(\w+)\}")
_STEP = re.compile(r"[^.\[\]]+")


def value_at(data: object, path: str) -> Any:
    """Return what stands at a path of JSON, as in `result.scores[0]`.

    Raises:
        KeyError: where nothing stands there.
    """
    for step in _STEP.findall(path.removeprefix("$")):
        if isinstance(data, Mapping) and step in data:
            data = data[step]
        elif isinstance(data, list) and step.isdigit() and int(step) < len(data):
            data = data[int(step)]
        else:
            raise KeyError(path)
    return data


class ServiceTransport(DirectTransport):
    """Posts the judge's own body to the judge's own address; follows no redirect."""

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """Send one request; see `Transport.send`."""
        url = str(request.api_base)
        extra = request.extra
        headers = {name: VARIABLE.sub(_variable, text) for name, text in extra.get("headers", {}).items()}
        if headers != extra.get("headers", {}):
            check_address(url)
        endpoint = Endpoint(url=url, model=request.model, key="", proxy=proxy_for(url), max_tokens="")
        status, told, raw = await self._post(endpoint, encode(extra["body"]), timeout_s, headers=headers)
        if status >= 300:
            return read_error(status, told, raw)
        try:
            text, data = clean_text(raw.decode()), decode(raw)
        except UnicodeDecodeError:
            raise TransportError("malformed", f"The body is no text: {preview(raw)}", status) from None
        except ValueError:
            data = None
        return Response(text=text, finish_reason="stop", model=request.model, **_usage(extra.get("usage", {}), data))

    @classmethod
    def missing(cls, model: str, api_base: str | None) -> str | None:
        """Nothing is known to lack: what headers need, the judge itself says."""
        return None


def service_name(url: str) -> str:
    """Return the model name of the judge at an address."""
    parts = urlsplit(url)
    return f"{PREFIX}{parts.netloc}{parts.path}".rstrip("/")


def _variable(match: re.Match[str]) -> str:
    value = os.environ.get(match[1])
    if not value:
        raise TransportError("auth", f"A header of the judge needs the environment variable {match[1]}: set it.")
    return value


def _usage(paths: Mapping[str, Any], data: object) -> dict[str, Any]:
    """Read tokens and cost; what is not there, or is no amount, is unknown and not free."""
    found: dict[str, Any] = {}
    for name, path in paths.items():
        try:
            value = value_at(data, path) if isinstance(path, str) else path
        except KeyError:
            continue
        is_amount = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        if is_amount and (name == "cost_usd" or value == int(value)):
            found[name] = float(value) if name == "cost_usd" else int(value)
    return found
