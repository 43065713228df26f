"""Validation of what users give: numbers, types by signatures, traced functions, data of files, memory."""
