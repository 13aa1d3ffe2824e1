"""What others measured or published, and their tables made of our runs.

Reading other tools' files is in `kvmark.imports`.
"""
