"""Measures a real server over a made vault, with the plainest tool for the same job beside it."""
