"""Small checkers and generators that the Makefile runs."""
