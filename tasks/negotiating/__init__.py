"""What is negotiated over, as pure rules: trades of stocks (`trade`), and a pool to be shared (`pool`)."""
