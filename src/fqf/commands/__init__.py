"""What each command does; `cli.py` calls them."""
