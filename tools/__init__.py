"""Programs for developers: the documentation site and the sample corpus."""
