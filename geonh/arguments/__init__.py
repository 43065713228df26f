"""Validation of user input: numbers, types by signatures, traced functions, data of files, memory."""
