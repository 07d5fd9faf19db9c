"""The parts of `benchmarks.fuzz_readers`: seeds, mutations, reading and checks, running."""
