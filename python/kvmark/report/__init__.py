"""Draws answers: tables for terminals, Markdown, self-contained HTML, SVG and PNG.

Runs and their analysis become an answer (`gather`), answers become tables (`table`, `grid`),
figures (`figures`) and pages (`page`, `html`, `markdown`). Nothing is computed here.

Each part is imported where it is used: figures bring a library that takes a second to load.
"""
