"""Use cases, a module each, over a `World` that is passed in."""
