"""The documentation: what it says exists, its links lead somewhere, its commands can be given."""
