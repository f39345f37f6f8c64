"""Engines that envlock drives and does not own: resolvers and installers."""
