"""The code that runs inside a target environment, and the one that starts it."""
