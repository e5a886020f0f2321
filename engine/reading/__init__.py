"""Reading a run's record: what was said, what is worth reading, who met whom, why a turn weighed what it did."""
