"""Reports: tables and charts for terminals, Markdown, self-contained HTML, SVG and PNG.

`views.gather` makes answers of runs and their analysis, `views` pages of answers, and `format`
writes pages. No module computes a figure. Charts import Altair, which takes a second to load.
"""
