"""The job: its model, layout over ranks, memory, and the operations of one training step."""
