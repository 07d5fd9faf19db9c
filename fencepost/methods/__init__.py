"""Word vectors to entities: the contract of a method, and one folder per paper."""
