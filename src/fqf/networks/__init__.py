"""Linen modules; the agents compose them."""
