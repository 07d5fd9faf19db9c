"""Other tools beside Fencepost: same sentences, encoder, epochs, batch size and number of threads.

    python -m benchmarks.peers [--corpora genia wnut17] [--tools NAME ...] [--seeds 3] [--jobs 2]
    python -m benchmarks.peers --page

Each tool runs in an environment of its own, which is made with pip at its first use (`--environments`, a
folder outside of the repository unless you choose another). All tools train MiniLM for the same epochs with
an encoder rate of 1e-4 and one thread, choose the best epoch on the same development sentences, and predict
the test data from the same words. Their output is scored as `fencepost evaluate` does, and on flat data by
seqeval, too. Tools that cannot represent nested entities learn the outermost ones and are scored on all.
Each run is a line of `results/peers.jsonl`; lines that exist are not measured again. `--page` writes
docs/comparison.md from this file.
"""
