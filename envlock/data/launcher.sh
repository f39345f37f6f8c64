#!/bin/sh
# Starts the interpreter of this generation by its own path, not by the link somebody came through:
# a process that is running when the link moves on goes on importing from where it began.
exec @INTERPRETER@ "$@"
