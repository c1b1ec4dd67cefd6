"""The process that holds a model: started and spoken to by `server`.

It is a process of its own, so that a fault in native code ends no notebook and no run. It reads one line of JSON from
its input and serves until that input ends, which it does however the process that started it ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any


def host_model() -> None:
    """Load, tell the address, and tell the processor time for every further line of input."""
    # Ctrl-C in a terminal reaches this process too; calls in flight are settled first, by the one that asked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.stdin.readline())
    try:
        server = _load(settings)
    except Exception as error:
        _tell({"error": f"{type(error).__name__}: {error}"})
    else:
        _tell({"url": f"{server.listening_address}/v1"})
        for _ in sys.stdin:
            _tell({"cpu_seconds": time.process_time()})
    # Not by the server's destructor: it waits for a call in flight, which nobody reads any more.
    os._exit(0)


def _load(settings: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["name"]}
    params.api_keys = [settings["key"]]
    params.hostnames = ["127.0.0.1"]
    # Any free one: the line that tells the address says which.
    params.port = 0
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["slots"] * settings["context"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    # Builds without OpenMP have threads of their own, which spin unless told otherwise.
    params.cpuparams.poll = params.cpuparams_batch.poll = 0
    params.n_gpu_layers = 0
    params.ui = params.endpoint_slots = False
    params.cache_ram_mib = 0
    params.verbosity = 0
    return xllamacpp.Server(params)


def _tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    host_model()
