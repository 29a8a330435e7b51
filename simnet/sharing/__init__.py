"""Fair sharing of links: arrays in, rates out; knows nothing of GPUs, collectives or time."""
