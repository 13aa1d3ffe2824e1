"""Other tools' results, read into runs. One file per format."""
