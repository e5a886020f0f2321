"""What red teaming needs beside its rules: attacks written by hand, and how a leak is told."""
