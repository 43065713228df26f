"""``python -m geonh``: the command line."""

from geonh.cli import app

if __name__ == "__main__":
    app()
