"""The parts of `benchmarks.fuzz_readers` and `benchmarks.fuzz_models`: seeds, mutations, checks, running."""
