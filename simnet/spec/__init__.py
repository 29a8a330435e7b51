"""Files at the border: YAML to frozen, checked values, with every fault of a file at once."""
