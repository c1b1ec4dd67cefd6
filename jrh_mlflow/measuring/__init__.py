"""The verbs on judges: evaluate, criterion_shift, compare, jury, replay, validate."""
