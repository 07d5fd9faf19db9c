"""Methods, which turn word vectors into entities: the interface of a method, and one folder per paper."""
