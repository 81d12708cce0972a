"""Cross-lingual retrieval: xsim, xsim++, tables by language, documents."""
