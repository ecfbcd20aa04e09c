"""Writes that wait for a person: kept in the state folder until somebody decides. Touches no vault."""
