"""Argument parsing, rendering and the only exit."""
