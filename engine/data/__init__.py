"""What tasks read: tables of examples, a data set of the hub, lines of a text file, a folder of documents."""
