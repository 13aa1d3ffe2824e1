"""One file per kind of answer: its tables, charts, sentences, page and terminal text."""
