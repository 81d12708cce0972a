"""Sources of training text: the built-in grammar, Bible editions, gettext catalogs, source code, LaTeX."""
