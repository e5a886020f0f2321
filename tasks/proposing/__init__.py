"""What a proposer may propose: sums and levels of sums with exact answers, or questions in words (`kinds`)."""
