"""Watching a judge: a frozen panel that is asked again at every look, and tests of change that may be looked at often.

`watched.py` draws the panel and reads its asks, `watch_view.py` has what people see and MLflow is told, `watch.py` is
the verb.
"""
