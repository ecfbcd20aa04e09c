"""Pages of notes, beginnings of paths, values and folders, whole and as far as they may be seen."""

from hypothesis import given, settings
from hypothesis import strategies as st

from server.access.decision import Sight
from server.index.names import key_of
from server.index.store import Index

from .build import document
