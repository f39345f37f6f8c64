"""Real servers and real distributions for the tests: a package index on the loopback, and what it serves."""
