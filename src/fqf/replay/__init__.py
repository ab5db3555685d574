"""Experience as a pytree: a ring of rows per lane, from which stacks and n-step returns are assembled when asked."""
