"""The fault suite: agents' calls among faults of every kind, checked against a model. `python -m tests.faults`."""
