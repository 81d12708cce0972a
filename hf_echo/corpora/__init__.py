"""Where training text comes from: the built-in grammar, Bible editions, gettext catalogs, source code, LaTeX."""
